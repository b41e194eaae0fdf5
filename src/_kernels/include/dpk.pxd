# Declarations of dpk_entries.h for the Cython modules; nothing is defined here. Functions that compute stand for their entries.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "dpk_entries.h" nogil:
    enum:
        DPK_GROUP
        DPK_BLOCK
        DPK_MAX_DIMS
        DPK_MAX_LIMBS
        DPK_MAX_TERMS
        DPK_GUIDES
        DPK_LOG2_SLOTS
        DPK_MOST_DISTINCT
        DPK_HASH_PRIME
        DPK_SUPPORT_SEEDS
        DPK_STACK_DEPTH
        DPK_OPEN_DEPTH
        DPK_REAL_DEPTH
        DPK_DISCRETE_DEPTH

    enum:
        DPK_DOMAIN_BULK

    enum:
        DPK_HASH_KEY

    enum:
        DPK_CHACHA20
        DPK_AES256

    enum:
        DPK_OK
        DPK_NONFINITE
        DPK_PENDING_FULL
        DPK_NEED_LIMBS
        DPK_EXHAUSTED

    enum:
        DPK_F64
        DPK_F32
        DPK_F16
        DPK_I64
        DPK_I32
        DPK_I16
        DPK_I8
        DPK_U32
        DPK_U16
        DPK_U8
        DPK_F64_PAIR
        DPK_U64

    enum:
        DPK_LAPLACE
        DPK_GAUSSIAN
        DPK_DISCRETE_LAPLACE
        DPK_GAUSSIAN_TABLE
        DPK_GAUSSIAN_ROUNDED

    enum:
        DPK_FLIP
        DPK_FLIP_PACKED
        DPK_BOUNDED
        DPK_TABLE
        DPK_KARY
        DPK_UNARY
        DPK_SUBSET
        DPK_HASHING
        DPK_HADAMARD
        DPK_CHANNEL
        DPK_GUIDE_BITS
        DPK_SAMPLE
        DPK_HYPERCUBE
        DPK_PROJECTIVE
        DPK_MOST_DIMENSIONS

    enum:
        DPK_GUMBEL
        DPK_EXPONENTIAL
        DPK_TWO_SIDED

    ctypedef struct dpk_stream:
        uint32_t key[8]
        uint32_t nonce
        int32_t cipher

    ctypedef struct dpk_view:
        char *data
        int32_t dtype
        int32_t ndim
        int64_t shape[DPK_MAX_DIMS]
        int64_t strides[DPK_MAX_DIMS]

    ctypedef struct dpk_table:
        int32_t n_short
        int32_t n_long
        const uint32_t *short_
        const uint64_t *high
        const uint64_t *low
        const uint64_t *guide

    ctypedef struct dpk_acceptance:
        double quick
        int32_t n_terms
        double terms[DPK_MAX_TERMS]

    ctypedef struct dpk_law:
        int32_t kind
        double step_scale
        double grid
        double inverse_grid
        double offset_high
        double offset_low
        dpk_table table
        dpk_acceptance acceptance

    ctypedef struct dpk_real:
        int32_t n_limbs
        int32_t is_exact
        const uint32_t *limbs

    ctypedef struct dpk_bounds:
        double lower
        double upper
        double missing
        int64_t int_lower
        int64_t int_upper
        int32_t is_set
        int32_t is_integral

    ctypedef struct dpk_digit:
        int32_t n_thresholds
        int32_t is_signed
        const int64_t *high
        const int64_t *low
        int64_t weight[3]

    enum:
        DPK_LIMBS
        DPK_MOST_DIGITS

    ctypedef struct dpk_field:
        uint32_t q
        uint32_t minus_one
        int32_t t
        const uint32_t *offsets
        const uint16_t *log
        const uint16_t *exp
        const uint16_t *sum
        const uint16_t *table

    void dpk_field_table(const dpk_field *, uint16_t *table)
    void dpk_line_sums(const dpk_field *, const int64_t *x, size_t blocks, int64_t start, int64_t stop, int64_t *out)

    ctypedef struct dpk_box:
        const double *lower
        const double *upper
        const double *missing
        const double *width
        const double *inverse

    ctypedef struct dpk_bounded:
        double lower
        double upper
        double missing
        double width
        double inverse_width
        double start
        double rise
        double slack
        double q_high
        double q_low

    ctypedef struct dpk_tests:
        const double *weights
        size_t width
        int32_t steps
        const float *rough
        const double *centre
        double reports
        double error
        double error_fixed

    enum:
        DPK_WALK_LANES
        DPK_PRODUCT_PLANES

    int64_t DPK_COSINE_LARGEST

    ctypedef struct dpk_choice:
        const uint64_t *thresholds
        const uint32_t *guide
        int32_t shift

    ctypedef struct dpk_brackets:
        const uint64_t *low
        const uint64_t *high
        int64_t last
        int32_t shift

    ctypedef struct dpk_band:
        const int64_t *lower
        const int64_t *upper
        const int64_t *offsets
        const double *weights
        const double *weight_exponents
        int64_t most
        double *mantissas
        double *exponents

    ctypedef struct dpk_kernels:
        const char *name

    int dpk_usable_level(const char *name, dpk_kernels *usable)
    int dpk_usable_without_vaes(const char *name, dpk_kernels *usable)
    const dpk_kernels *dpk_level_now(const dpk_kernels *const *level)
    void dpk_level_use(const dpk_kernels **level, const dpk_kernels *usable)
    int dpk_has_aes(const dpk_kernels *)
    int dpk_has_vaes(const dpk_kernels *)
    const char *dpk_compiler()
    const char *dpk_build_flags()

    void dpk_wipe(void *memory, size_t n)
    void dpk_wipe_stack(size_t n)
    void dpk_wipe_frames(size_t n)

    void dpk_stream_init(dpk_stream *, const dpk_kernels *, int cipher, const uint8_t *key, uint32_t nonce)
    void dpk_chacha20_block(const uint32_t *key, uint32_t counter, const uint32_t *nonce, uint32_t *out)
    void dpk_bulk_words "dpk_entry_bulk_words"(const dpk_stream *, const dpk_kernels *, uint32_t domain, uint64_t group, size_t n_groups,
                                               uint64_t *words)
    void dpk_more_words "dpk_entry_more_words"(const dpk_stream *, const dpk_kernels *, uint32_t domain, uint64_t element, uint32_t attempt,
                                               uint32_t chunk, size_t n_words, uint64_t *out)

    void dpk_view_coalesce(dpk_view *)

    ctypedef struct dpk_numpy_bits:
        void *state

    ctypedef struct dpk_secure_bits:
        const dpk_kernels *kernels

    ctypedef struct dpk_keyed_bits:
        dpk_stream stream
        uint64_t base
        uint32_t has_half
        uint32_t half

    const uint64_t *dpk_watch_forks()
    int dpk_numpy_bits_are_unset(const dpk_numpy_bits *)
    void dpk_secure_bits_start(dpk_secure_bits *, const dpk_kernels *, const uint64_t *now, int cipher, const uint8_t *owned,
                               const uint8_t *shared)
    void dpk_secure_bits_serve(dpk_secure_bits *, dpk_numpy_bits *)
    void dpk_keyed_bits_start(dpk_keyed_bits *, const dpk_kernels *, const uint8_t *key)
    uint32_t dpk_keyed_bits_used(const dpk_keyed_bits *, uint32_t *has_half, uint32_t *half)
    void dpk_keyed_bits_seek(dpk_keyed_bits *, uint32_t nonce, uint64_t element)
    void dpk_keyed_bits_serve(dpk_keyed_bits *, dpk_numpy_bits *)

    ctypedef struct dpk_pending:
        int64_t index
        uint64_t element
        double x
        double x_low
        int64_t x_int
        int64_t law

    ctypedef struct dpk_noise_call:
        const dpk_kernels *kernels
        dpk_stream stream
        uint64_t first_element
        int32_t kind
        int32_t tier
        double bound_factor
        int64_t n_laws
        const dpk_law *laws
        const uint64_t *guides
        const double *steps
        const double *seconds
        dpk_view which
        int32_t has_scales
        int32_t streams
        double fixed_grid
        dpk_view scales
        dpk_bounds bounds
        dpk_view values
        dpk_view out

    ctypedef struct dpk_constant_noise:
        const dpk_kernels *kernels
        dpk_stream stream
        uint64_t first_element
        int64_t n_digits
        const dpk_digit *digits
        int32_t fraction_bits
        double grid
        double inverse
        double least
        double most
        dpk_bounds bounds
        dpk_view values
        dpk_view out

    ctypedef struct dpk_constant_bits:
        const dpk_kernels *kernels
        dpk_stream stream
        uint64_t first_element
        const dpk_digit *digits
        const uint8_t *bits
        uint8_t *out

    ctypedef struct dpk_constant_choice:
        const dpk_kernels *kernels
        dpk_stream stream
        uint64_t first_element
        int64_t n_digits
        const dpk_digit *digits
        double inverse
        double least
        double most
        double largest
        double largest_low
        dpk_view scores

    void dpk_constant_real "dpk_entry_constant_real"(const dpk_constant_noise *, int64_t start, int64_t stop)
    void dpk_constant_int "dpk_entry_constant_int"(const dpk_constant_noise *, int64_t start, int64_t stop)
    void dpk_constant_flip "dpk_entry_constant_flip"(const dpk_constant_bits *, int64_t start, int64_t stop)
    int64_t dpk_constant_largest "dpk_entry_constant_largest"(const dpk_constant_choice *, int64_t n)
    int dpk_noise_run "dpk_entry_noise_run"(const dpk_noise_call *, int64_t start, int64_t stop, dpk_pending *, int64_t capacity,
                                            int64_t *n_pending, int64_t *reached)
    void dpk_law_set_grid "dpk_entry_law_set_grid"(dpk_law *, double scale, double grid)
    void dpk_law_parameters "dpk_entry_law_parameters"(const dpk_law *, double *step, double *second)
    int64_t dpk_number_distinct "dpk_entry_number_distinct"(const dpk_kernels *, const dpk_view *, size_t n, double low, double high,
                                                            uint64_t *slots, int log2_slots, double *distinct, uint16_t *which)
    void dpk_guide_set "dpk_entry_guide_set"(const dpk_table *, uint64_t *guide)
    int64_t dpk_first_outside "dpk_entry_first_outside"(const dpk_kernels *, const dpk_view *, int64_t k, int64_t start, int64_t stop)
    int64_t dpk_first_nan "dpk_entry_first_nan"(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop)
    int64_t dpk_subset_words(int64_t w)
    int64_t dpk_vector_words(int64_t d)
    void dpk_hash_rows "dpk_entry_hash_rows"(const uint8_t *key, const uint8_t *rows, size_t width, const uint8_t *taken, size_t n,
                                             uint64_t *sums)
    void dpk_hash_texts "dpk_entry_hash_texts"(const uint8_t *key, const int64_t *ends, const uint8_t *text, const uint8_t *taken, size_t n,
                                               uint64_t *sums)
    int64_t dpk_first_nonfinite "dpk_entry_first_nonfinite"(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop)

    ctypedef struct dpk_guide:
        const uint32_t *cells
        const uint64_t *ends
        int64_t outcomes
        int32_t bits

    ctypedef struct dpk_response:
        const dpk_kernels *kernels
        dpk_stream stream
        uint64_t first_element
        int32_t kind
        int32_t tier
        int64_t k
        int64_t unknown
        int64_t w
        int64_t g
        double scale
        const dpk_real *real
        const dpk_real *own
        const dpk_box *box
        const dpk_field *field
        int32_t streams
        int32_t is_rounded
        dpk_bounded bounded
        dpk_guide guide
        dpk_view values
        dpk_view out

    int dpk_response_run "dpk_entry_response_run"(const dpk_response *, int64_t start, int64_t stop, uint8_t *room, dpk_pending *,
                                                  int64_t capacity, int64_t *n_pending, int64_t *reached)

    ctypedef struct dpk_clamp:
        double lower
        double upper
        double inverse_grid

    ctypedef struct dpk_sums:
        const dpk_kernels *kernels
        dpk_clamp clamp
        char *data
        int64_t columns
        int64_t row_stride
        int64_t column_stride
        dpk_view values

    int64_t dpk_sums_room(int64_t columns)
    int dpk_sums_run "dpk_entry_sums_run"(const dpk_sums *, int64_t start, int64_t stop, int64_t first, int64_t last, uint64_t *room,
                                          uint64_t *low, int64_t *high)
    int dpk_sums_grouped "dpk_entry_sums_grouped"(const dpk_kernels *, const dpk_clamp *, const double *x, const int32_t *groups, int64_t n,
                                                  int64_t n_groups, int64_t *totals)
    void dpk_sums_pairs "dpk_entry_sums_pairs"(const uint64_t *low, const int64_t *high, size_t n, double grid, double *nearest,
                                               double *rest)

    enum:
        DPK_MOMENT_PARTS

    ctypedef struct dpk_lattice:
        double inverse_grid
        double grid
        double centre
        int64_t int_centre

    ctypedef struct dpk_moments:
        const dpk_kernels *kernels
        dpk_lattice lattice
        dpk_view values

    int64_t dpk_moments_run "dpk_entry_moments_run"(const dpk_moments *, int64_t start, int64_t stop, uint64_t *low, int64_t *high)

    ctypedef struct dpk_points:
        const double *points
        int64_t n
        double first
        double inverse_step
        double low
        double high
        int32_t counts_equal

    ctypedef struct dpk_places:
        const dpk_kernels *kernels
        dpk_points points
        dpk_view values

    void dpk_places_run "dpk_entry_places_run"(const dpk_places *, int64_t start, int64_t stop, int dtype, void *out)

    ctypedef struct dpk_quantile:
        double tau
        double lower
        double upper
        double start
        double step
        double when_true
        double when_false

    void dpk_sequential_quantile "dpk_entry_sequential_quantile"(const dpk_quantile *, const double *x, const uint8_t *flips, uint8_t *bits,
                                                                 int64_t n, double *average)

    enum:
        DPK_PIECES
        DPK_UNIT_BLOCKS
        DPK_FEW_CANDIDATES
        DPK_SPARE_PLACES

    ctypedef struct dpk_candidate:
        int64_t index
        double high
        double low
        double error

    ctypedef struct dpk_threshold:
        double high
        double low
        int32_t is_set

    ctypedef struct dpk_selection:
        const dpk_kernels *kernels
        dpk_stream stream
        uint64_t first_element
        int32_t noise
        int32_t tier
        int32_t is_unpruned
        double bound_factor
        double scale
        int64_t n
        int64_t keep
        uint64_t stride
        int64_t n_units
        int64_t step
        dpk_view scores
        double *bounds
        int64_t n_excluded
        const int64_t *excluded

    int dpk_selection_run "dpk_entry_selection_run"(const dpk_selection *, uint64_t round, int64_t start, int64_t stop,
                                                    dpk_candidate *places, int64_t capacity, int64_t *count, dpk_threshold *threshold,
                                                    int64_t *evaluated, int64_t *bad)
    int dpk_selection_bounds "dpk_entry_selection_bounds"(const dpk_selection *, int64_t start, int64_t stop, int64_t *bad)
    void dpk_selection_rebound "dpk_entry_selection_rebound"(const dpk_selection *, int64_t block)
    int dpk_selection_winner "dpk_entry_selection_winner"(const dpk_selection *, uint64_t round, dpk_candidate *places, int64_t capacity,
                                                          int64_t *winner, int64_t *bad)
    int dpk_selection_ranked "dpk_entry_selection_ranked"(const dpk_selection *, uint64_t round, dpk_candidate *places, int64_t capacity,
                                                          int64_t *chosen, int64_t *evaluated, int64_t *bad)
    int dpk_selection_peel "dpk_entry_selection_peel"(dpk_selection *, int64_t rounds, dpk_candidate *places, int64_t capacity,
                                                      int64_t *excluded, int64_t *chosen, int64_t *bad)

    void dpk_box_set "dpk_entry_box_set"(double *lower, double *upper, double *missing, double *width, double *inverse, size_t period,
                                         size_t size)
    void dpk_bounded_set "dpk_entry_bounded_set"(dpk_bounded *)
    void dpk_clamp_set "dpk_entry_clamp_set"(dpk_clamp *, double lower, double upper, double grid)

    void dpk_keystream_into "dpk_entry_keystream_into"(const dpk_stream *, const dpk_kernels *, size_t n_groups, uint64_t *out)
    void dpk_keystream_in_cache "dpk_entry_keystream_in_cache"(const dpk_stream *, const dpk_kernels *, uint64_t n_blocks, uint64_t *words)
    void dpk_aes256_block "dpk_entry_aes256_block"(const dpk_kernels *, const dpk_stream *, const uint64_t *block, uint64_t *out)
    void dpk_exponential_raw "dpk_entry_exponential_raw"(const dpk_kernels *, const uint64_t *words, double *e, size_t n)
    void dpk_normal_raw "dpk_entry_normal_raw"(const dpk_kernels *, const uint64_t *words, double *z, size_t n)
    void dpk_hash "dpk_entry_hash"(const dpk_kernels *, const uint64_t *seeds, const int64_t *x, uint32_t g, int64_t *out, size_t n)
    void dpk_support "dpk_entry_support"(const dpk_kernels *, const uint64_t *seeds, const uint32_t *codes, size_t n, uint32_t g, size_t k,
                                         int64_t *counts)
    void dpk_count_columns "dpk_entry_count_columns"(const dpk_kernels *, const uint8_t *rows, size_t n, size_t width, size_t stride,
                                                     int64_t *counts)
    void dpk_walsh_hadamard "dpk_entry_walsh_hadamard"(const dpk_kernels *, int64_t *x, int log2_n)
    void dpk_walk "dpk_entry_walk"(const dpk_kernels *, const dpk_tests *, const double *counts, int32_t *levels, int32_t *places, size_t n)
    void dpk_steps "dpk_entry_steps"(const dpk_kernels *, const int64_t *counts, const int64_t *thresholds, int log2_values,
                                     const double *values, double *out, size_t n)
    int64_t dpk_nonzero "dpk_entry_nonzero"(const dpk_kernels *, const uint8_t *x, size_t n)
    int dpk_count_bytes "dpk_entry_count_bytes"(const dpk_kernels *, const uint8_t *x, size_t n, int k, int64_t *counts)
    int dpk_choose "dpk_entry_choose"(const dpk_kernels *, const dpk_choice *, const uint64_t *words, int64_t *out, size_t n)
    void dpk_cosines "dpk_entry_cosines"(const dpk_kernels *, const double *x, size_t n, size_t terms, int64_t *sums, int64_t *out)
    void dpk_band_rows "dpk_entry_band_rows"(const dpk_kernels *, const dpk_band *, size_t start, size_t stop)
    void dpk_weigh_bits "dpk_entry_weigh_bits"(const dpk_kernels *, const uint8_t *rows, size_t n, size_t width, size_t stride,
                                               const uint64_t *planes, int n_planes, int64_t *out)
    int64_t dpk_below_brackets "dpk_entry_below_brackets"(const dpk_brackets *, const int64_t *counts, const uint64_t *words, uint8_t *out,
                                                          size_t n)
