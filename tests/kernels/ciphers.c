/* Whether both widths of AES that x86_v3 has give the same words, where this CPU runs both. */
#include "driver.h"

int main(void) {
    static const uint8_t key[32] = "a key of thirty-two bytes, known";
    static const uint64_t starts[] = {0, 1, 5, (uint64_t)1 << 57};
    static uint64_t narrow[8 * DPK_GROUP], wide[8 * DPK_GROUP];
    dpk_kernels usable;
    dpk_stream stream;
    if (!dpk_usable_level("x86_v3", &usable) || !usable.aes256 || usable.aes256 != usable.aes256_wide) {
        puts("one width");
        return 0;
    }
    dpk_stream_init(&stream, &usable, DPK_AES256, key, 7);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        for (size_t n = 1; n <= 8; n++) {
            memset(narrow, 0, sizeof narrow);
            memset(wide, 0, sizeof wide);
            dpk_kernels_x86_v3.aes256(&stream, dpk_tag(3, 2, 1), starts[i], n, narrow);
            usable.aes256(&stream, dpk_tag(3, 2, 1), starts[i], n, wide);
            if (memcmp(narrow, wide, sizeof narrow) != 0) return 1;
        }
    puts("equal");
    return 0;
}
