/* What the translator knows of <string.h>. */
void *memcpy(void *to, const void *from, unsigned long n);
