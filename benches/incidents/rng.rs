//! Random numbers and functions that are the same on every machine: neither depends on the platform's libm, and a
//! number depends only on what it is drawn for, so that two runs of a case differ only where an episode makes them.

/// Mixes all bits (the finaliser of splitmix64).
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number for something that three others name.
pub fn hash(seed: u64, a: u64, b: u64, c: u64) -> u64 {
    let z = mix(seed.wrapping_add(a.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let z = mix(z.wrapping_add(b.wrapping_mul(0xd1b5_4a32_d192_ed03)));
    mix(z.wrapping_add(c.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7)).wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// From 0 to 1, both excluded.
pub fn unit(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
}

/// e to the power of `x`.
pub fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = x - k * std::f64::consts::LN_2;
    // r lies within ± 0.35: eleven terms are exact to the last digits.
    let mut sum = 1.0;
    for n in (1..=11).rev() {
        sum = 1.0 + sum * r / f64::from(n);
    }
    sum * f64::from_bits(((1023 + k as i64) as u64) << 52)
}

/// The natural logarithm of a positive number.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        (m, exponent) = (m / 2.0, exponent + 1);
    }
    let s = (m - 1.0) / (m + 1.0);
    let (square, mut sum) = (s * s, 0.0);
    for n in (0..12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * n + 1);
    }
    2.0 * s * sum + exponent as f64 * std::f64::consts::LN_2
}

/// `x` to the power of `y`.
pub fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

/// The sine of `turns` full turns.
pub fn sin(turns: f64) -> f64 {
    let x = (turns - turns.round()) * std::f64::consts::TAU;
    let square = x * x;
    let mut sum = 1.0;
    for n in (1..=13).rev() {
        sum = 1.0 - sum * square / f64::from(2 * n * (2 * n + 1));
    }
    x * sum
}

/// The normal distribution's quantile (Acklam's approximation, to 1e-9).
pub fn normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    if !(0.02425..=0.97575).contains(&p) {
        let q = (-2.0 * ln(p.min(1.0 - p))).sqrt();
        let value = C.iter().fold(0.0, |sum, c| sum * q + c) / (D.iter().fold(0.0, |sum, d| sum * q + d) * q + 1.0);
        return if p < 0.5 { value } else { -value };
    }
    let q = p - 0.5;
    let r = q * q;
    A.iter().fold(0.0, |sum, a| sum * r + a) * q / (B.iter().fold(0.0, |sum, b| sum * r + b) * r + 1.0)
}

/// How many events there are of an expected number, from one random number.
pub fn poisson(expected: f64, bits: u64) -> u32 {
    if expected <= 0.0 {
        return 0;
    }
    let u = unit(bits);
    if expected > 30.0 {
        // With the first term of Cornish and Fisher, since counts are skewed.
        let z = normal(u);
        return (expected + expected.sqrt() * z + (z * z - 1.0) / 6.0).round().max(0.0) as u32;
    }
    let mut term = exp(-expected);
    let (mut sum, mut n) = (term, 0);
    while u > sum && n < 200 {
        n += 1;
        term *= expected / f64::from(n);
        sum += term;
    }
    n
}

/// Quantiles of the normal distribution in even steps.
pub struct Normals([f32; 256]);

impl Normals {
    pub fn new() -> Self {
        Self(std::array::from_fn(|n| normal((n as f64 + 0.5) / 256.0) as f32))
    }

    /// Factors that spread by `sigma` around a mean of 1: of a log-normal distribution.
    pub fn spread(&self, sigma: f64) -> [f32; 256] {
        let mean = exp(sigma * sigma / 2.0);
        std::array::from_fn(|n| (exp(sigma * f64::from(self.0[n])) / mean) as f32)
    }
}

/// Numbers one after another, for what is drawn once a case.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(hash(seed, stream, 0x5eed, 0))
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    pub fn range(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Even by order of magnitude.
    pub fn log_range(&mut self, from: f64, to: f64) -> f64 {
        exp(self.range(ln(from), ln(to)))
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// One of several, by weight.
    pub fn weighted<T: Copy>(&mut self, all: &[(T, f64)]) -> T {
        let mut rest = self.unit() * all.iter().map(|own| own.1).sum::<f64>();
        for (thing, weight) in all {
            rest -= weight;
            if rest <= 0.0 {
                return *thing;
            }
        }
        all[all.len() - 1].0
    }
}
