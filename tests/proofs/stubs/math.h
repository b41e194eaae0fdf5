/* What the translator knows of <math.h>. */
double fabs(double x);
double sqrt(double x);
