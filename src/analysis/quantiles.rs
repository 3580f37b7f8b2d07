//! Quantiles of distributions.

/// The quantile of the standard normal distribution (Acklam's rational approximation, relative error below 1.2e-9).
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 5] =
        [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 4] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416];
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p < 0.02425 {
        let q = (-2.0 * p.ln()).sqrt();
        return polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    }
    let q = p - 0.5;
    let r = q * q;
    polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
}

/// The logarithm of the gamma function (Lanczos' approximation with g = 7 and nine terms, relative error below 1e-13).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin().abs()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = TERMS[0] + TERMS[1..].iter().zip(1..).map(|(term, n)| term / (x + f64::from(n))).sum::<f64>();
    let base = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

/// The share of a beta distribution below `x` (the regularized incomplete beta function), by its continued fraction
/// (Lentz's method).
fn beta_below(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    // It converges fast below the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_below(1.0 - x, b, a);
    }
    const MIN_POSITIVE: f64 = 1e-300;
    let front = (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let avoid_zero = |value: f64| if value.abs() < MIN_POSITIVE { MIN_POSITIVE } else { value };
    let (mut c, mut d) = (1.0, 1.0 / avoid_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    // About as many steps as the root of the larger parameter.
    for step in 1..100_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / avoid_zero(1.0 + term * d);
            c = avoid_zero(1.0 + term / c);
            fraction *= d * c;
        }
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// The quantile of a beta distribution, by halving: wherever it lies, to the last digits.
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // Halving a number between 0 and 1 more often than this changes nothing but the smallest.
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if beta_below(middle, a, b) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The quantile of Student's t, of any number of degrees of freedom above 0.
pub fn student_quantile(p: f64, degrees: f64) -> f64 {
    if degrees > 1e6 {
        return normal_quantile(p);
    }
    let tail = p.min(1.0 - p);
    let x = beta_quantile(2.0 * tail, degrees / 2.0, 0.5);
    let size = (degrees * (1.0 - x) / x).sqrt();
    if p < 0.5 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution() {
        // From tables.
        for (p, z) in
            [(0.5, 0.0), (0.975, 1.959_963_985), (0.9, 1.281_551_566), (0.001, -3.090_232_306), (0.02, -2.053_748_911)]
        {
            assert!((normal_quantile(p) - z).abs() < 1e-8, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn quantiles_of_other_distributions() {
        // By scipy.stats.
        let near = |ours: f64, truth: f64| assert!((ours - truth).abs() < 1e-6 * truth.abs(), "{ours}, not {truth}");
        near(student_quantile(0.975, 7.0), 2.364_624_251);
        near(student_quantile(1.0 - 1e-4, 10.5), 5.565_636_855);
        near(student_quantile(0.01, 1.0), -31.820_515_954);
        near(beta_quantile(0.001, 12.5, 80.0), 0.049_238_664);
        near(beta_quantile(0.999, 1.0, 3.2), 0.884_521_801);
        near(beta_quantile(1e-5, 5000.5, 4000.0), 0.533_182_118);
        near(beta_quantile(1e-6, 850.0, 701.0), 0.487_727_282_2);
        near(beta_quantile(0.3, 2e6, 3e6), 0.399_885_099_9);
        near(beta_quantile(1e-3, 0.3, 1.0), 1e-10);
        near(beta_quantile(0.3, 0.4, 0.2), 0.443_916_246_7);
    }
}
