/* Double-double arithmetic after Dekker (1971) and Knuth (1997): an unevaluated sum high + low with |low| <= ulp(high)/2.
   Each operation's relative error is below 2^-100 (Joldes, Muller & Popescu, 2017); no FMA is needed. Compile without contraction. */
#ifndef DPK_DD_H
#define DPK_DD_H

typedef struct {
    double high, low;
} dd;

static inline dd two_sum(double a, double b) {
    double s = a + b, v = s - a;
    return (dd){s, (a - (s - v)) + (b - v)};
}

static inline dd fast_two_sum(double a, double b) {
    double s = a + b;
    return (dd){s, b - (s - a)};
}

static inline dd split(double a) {
    double t = 134217729.0 * a, high = t - (t - a);
    return (dd){high, a - high};
}

static inline dd two_product(double a, double b) {
    double p = a * b;
    dd x = split(a), y = split(b);
    return (dd){p, ((x.high * y.high - p) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

static inline dd dd_add(dd a, dd b) {
    dd s = two_sum(a.high, b.high), t = two_sum(a.low, b.low);
    s = fast_two_sum(s.high, s.low + t.high);
    return fast_two_sum(s.high, s.low + t.low);
}

static inline dd dd_add_double(dd a, double b) {
    dd s = two_sum(a.high, b);
    return fast_two_sum(s.high, s.low + a.low);
}

static inline dd dd_multiply(dd a, dd b) {
    dd p = two_product(a.high, b.high);
    return fast_two_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static inline dd dd_scale(dd a, double b) {
    dd p = two_product(a.high, b);
    return fast_two_sum(p.high, p.low + a.low * b);
}

static inline dd dd_negate(dd a) { return (dd){-a.high, -a.low}; }

static inline dd dd_divide(dd a, dd b) {
    double q1 = a.high / b.high;
    dd r = dd_add(a, dd_negate(dd_scale(b, q1)));
    double q2 = r.high / b.high;
    r = dd_add(r, dd_negate(dd_scale(b, q2)));
    dd q = fast_two_sum(q1, q2);
    return dd_add_double(q, r.high / b.high);
}

#endif
