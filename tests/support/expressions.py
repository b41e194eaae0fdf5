"""Hostile expressions by what is wrong with them: none may be derived."""

from __future__ import annotations

STATEMENTS = """
    a; SELECT 1
    a; DROP TABLE cells
    a FROM cells
    a FROM range(10)
    a FROM read_csv('/etc/passwd')
    a FROM '/etc/passwd'
    a FROM duckdb_settings()
    a FROM information_schema.tables
    a, b
    *
    cells.*
    * EXCLUDE (a)
    * REPLACE (1 AS a)
    COLUMNS('a')
    COLUMNS(*)
    DISTINCT a
    DISTINCT ON (a) a
    ALL a
    a AS b
    a b
    a WHERE true
    a GROUP BY a
    a GROUP BY ALL
    a HAVING true
    a QUALIFY true
    a ORDER BY a
    a LIMIT 1
    a LIMIT 1 OFFSET 3
    a OFFSET 1
    a UNION SELECT 1
    a UNION ALL SELECT b FROM cells
    a EXCEPT SELECT 1
    a INTERSECT SELECT 1
    a USING SAMPLE 1
    a FROM cells TABLESAMPLE 10%
    a WINDOW w AS ()
    a INTO b
    a FOR UPDATE
    WITH q AS (SELECT 1) SELECT 1
    FROM cells
    FROM cells SELECT a
    SELECT a
    VALUES (1)
    TABLE cells
    PRAGMA version
    SET threads = 4
    RESET threads
    INSTALL httpfs
    LOAD httpfs
    ATTACH 'x.db'
    COPY cells TO '/tmp/x'
    EXPORT DATABASE '/tmp/x'
    CREATE TABLE q (a INTEGER)
    CREATE MACRO m(x) AS x
    CALL pragma_version()
    EXPLAIN SELECT 1
    DESCRIBE a
    SHOW TABLES
    PIVOT cells ON a USING sum(b)
    a /*
    a -- b
        , b
"""
SUBQUERIES = """
    (SELECT 1)
    (SELECT max(a) FROM cells)
    a + (SELECT 1)
    a IN (SELECT 1)
    a NOT IN (SELECT b FROM cells)
    a = ANY (SELECT 1)
    a > ALL (SELECT 1)
    a = ANY ([1, 2])
    EXISTS (SELECT 1)
    NOT EXISTS (FROM cells)
    EXISTS (SELECT 1 FROM cells WHERE cells.a = a)
    CASE WHEN (SELECT true) THEN 1 ELSE 2 END
    COALESCE((SELECT NULL), 1)
    TRY((SELECT 1))
    ARRAY(SELECT 1)
    (FROM cells)
    (VALUES (1))
    (WITH q AS (SELECT 1) SELECT * FROM q)
"""
AGGREGATES = """
    count(*)
    count(a)
    count()
    sum(a)
    sum(DISTINCT a)
    avg(x)
    min(a)
    max(a)
    a - min(a)
    any_value(a)
    first(a)
    last(a)
    arg_min(a, b)
    list(a)
    array_agg(a ORDER BY b)
    string_agg(s, ',')
    group_concat(s)
    median(x)
    mode(a)
    quantile_cont(x, 0.5)
    approx_count_distinct(a)
    histogram(a)
    bool_and(f)
    sum(a) FILTER (WHERE f)
    sum(a) FILTER (f)
    lower(s) FILTER (WHERE f)
    lower(DISTINCT s)
    lower(s ORDER BY a)
    stddev(x)
    corr(x, a)
    entropy(a)
    row_number() OVER ()
    rank() OVER (ORDER BY a)
    lag(a) OVER ()
    lead(a, 1) OVER (ORDER BY b)
    sum(a) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    count(*) OVER ()
    first_value(a) OVER (PARTITION BY b)
    ntile(4) OVER ()
    lower(s) OVER ()
    grouping(a)
    unnest([1, 2])
    generate_series(1, 3)
    range(3)
"""
LAMBDAS = """
    x -> x + 1
    lambda y: y
    list_transform([1, 2], y -> y + 1)
    list_transform([1, 2], lambda y: y + a)
    [y FOR y IN [1, 2]]
    [y + a FOR y IN [1, 2] IF y > 1]
    list_filter([1], y -> true)
    list_reduce([1, 2], (p, q) -> p + q)
    list_aggregate([1, 2], 'sum')
    list_sum([1, 2])
    apply([1], y -> y)
    [1, 2]
    [a]
    [a, b][1]
    ARRAY[1]
    {'k': a}
    {'k': a}.k
    struct_pack(k := a)
    row(a, b)
    (a, b)
    MAP {'k': a}
    map(['k'], [a])
    s[1]
    s[1:2]
    s.k
    s::VARCHAR[]
    s::STRUCT(k INTEGER)
    s::MAP(VARCHAR, INTEGER)
    s::UNION(k INTEGER)
    a::INTEGER[3]
    list_value(a)
    string_split(s, ',')
    regexp_split_to_array(s, ',')
    regexp_extract_all(s, 'a')
    regexp_extract(s, '(a)(b)', ['p', 'q'])
    s -> '$.k'
    s ->> '$.k'
    s::JSON
    json_extract(s, '$.k')
    json_object('k', a)
    from_json(s, '{"k": "INTEGER"}')
    json_execute_serialized_sql(s)
    json_serialize_sql(s)
    json_deserialize_sql(s)
    to_json(a)
"""
CHANCE = """
    random()
    random() < 0.5
    a + random()
    TRY(random())
    setseed(0.5)
    uuid()
    uuidv4()
    uuidv7()
    gen_random_uuid()
    hash(a)
    nextval('q')
    currval('q')
    setval('q', 1)
    now()
    today()
    current_date
    current_date()
    CURRENT_DATE
    "current_date"
    current_time
    current_timestamp
    current_timestamp()
    localtime
    localtimestamp
    get_current_time()
    get_current_timestamp()
    transaction_timestamp()
    age(ts)
    ago(INTERVAL 1 DAY)
    'now'::TIMESTAMPTZ
    current_localtimestamp()
    current_localtime()
    sleep_ms(1000)
    pg_sleep(1)
    txid_current()
    current_transaction_id()
    current_connection_id()
    current_query_id()
"""
SURROUNDINGS = """
    current_setting('threads')
    getenv('HOME')
    getvariable('x')
    current_user
    user
    session_user
    current_role
    current_catalog
    current_schema
    current_schema()
    current_schemas(true)
    current_database()
    current_query()
    version()
    pragma_version()
    in_search_path('a', 'b')
    pg_typeof(a)
    typeof(a)
    stats(a)
    vector_type(a)
    write_log('x')
    error('x')
    error(s)
    assert_true(f)
    alias(a)
    rowid
    cells.a
    main.cells.a
    memory.main.cells.a
    main.lower(s)
    system.main.lower(s)
    a.lower()
    s.lower().upper()
    lower(string := s)
    lower(s := s)
    read_text('/etc/passwd')
    read_blob('/etc/passwd')
    read_csv('/etc/passwd')
    glob('/etc/*')
    parse_path(s)
    parse_filename(s)
    add_parquet_key('k', 's')
    st_astext(s)
    icu_sort_key(s, 'de')
    timezone('UTC', ts)
    ts AT TIME ZONE 'UTC'
    ts::TIMESTAMPTZ
    ts::TIMESTAMP WITH TIME ZONE
    make_timestamptz(1, 1, 1, 1, 1, 1)
    to_timestamp(a)
    s::TIMETZ
    s::BLOB
    s::BIT
    s::UUID
    s::INET
    s::VARINT
    s::VARIANT
    s::GEOMETRY
    s::cells
    s::main.INTEGER
    s::ENUM('p', 'q')
    s::"enum"
    s::regclass
    CAST(s AS my_type)
    CAST(s AS DECIMAL(a, 2))
    CAST(s AS DECIMAL(39, 2))
    CAST(s AS DECIMAL(5, 6))
    CAST(s AS DECIMAL(-1))
    CAST(s AS DECIMAL(5, 2, 1))
    CAST(s AS VARCHAR(a))
    x'00'
    'a'::BLOB
    encode(s)
    decode(s)
    from_base64(s)
    enum_code(s)
    cast_to_type(s, a)
    can_cast_implicitly(s, a)
    create_sort_key(s, 'ASC')
    constant_or_null(a, b)
    __internal_compress_string_ubigint(s)
    __internal_barrier(a)
    invoke(a)
    finalize(a)
    combine(a, b)
    lower(s) COLLATE nocase
    s COLLATE de
    s COLLATE noaccent = 'x'
    $1
    $name
    ?
    #1
    :name
    DEFAULT
    excluded.a
    OLD.a
"""
LENGTH = """
    repeat('x', 1000000000)
    repeat(s, a)
    lpad(s, 1000000000, 'x')
    lpad(s, a, 'x')
    rpad(s, 257, 'x')
    rpad(s, -1, 'x')
    rpad(s, 10, t)
    replace(s, 'a', 'aa')
    replace(s, '', 'a')
    replace(s, t, 'a')
    replace(s, 'a', t)
    regexp_replace(s, 'a', 'aaaaaaaaaaaaaaaaaaa', 'g')
    regexp_matches(s, t)
    regexp_full_match(s, t)
    regexp_extract(s, t)
    regexp_matches(s, 'a', t)
    s SIMILAR TO t
    s ~ t
    s LIKE t
    s ILIKE t
    s LIKE s || '%'
    s LIKE '%a%a%a_'
    s ILIKE '%_%_%_%_%_%_%_b'
    s NOT LIKE '_%%%'
    s LIKE 'a' ESCAPE '\\'
    s GLOB '*a*a*a*'
    s GLOB t
    like_escape(s, '%', 'a')
    regexp_matches(s, '(')
    regexp_matches(s, '[')
    regexp_matches(s, 'a{1000}{1000}')
    regexp_matches(s, '(?<a')
    regexp_matches(s, '\\1')
    regexp_matches(s, 'a', 'q')
    printf('%1000000000d', a)
    format('{:1000000000}', a)
    bar(x, 0, 1, 1000000000)
    to_base(a, 2, 1000000000)
    bitstring('1', 1000000000)
    factorial(a)
    levenshtein(s, t)
    damerau_levenshtein(s, t)
    jaro_winkler_similarity(s, t)
    jaccard(s, t)
    list_resize([1], 1000000000)
    translate(s, t, 'x')
    strftime(d, s)
    strptime(s, '%Y')
    try_strptime(s, t)
    date_part(s, d)
    date_trunc(s, d)
    date_diff(s, d, d)
    date_part(['year', 'month'], d)
    date_part('nonsense', d)
    date_trunc('nonsense', d)
    concat_ws(s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s)
    upper(upper(upper(upper(upper(upper(s))))))
    s || s || s || s || s || s || s || s || s
    url_encode(s)
    hex(s)
    to_binary(s)
    gamma(x)
    lgamma(x)
    lcm(a, b)
"""
TYPES = """
    a = s
    s = 5
    s <> a
    s BETWEEN 1 AND 2
    a IN (s, t)
    s IN (1, 2)
    s < d
    d > 'yesterday'
    d = 'epoch of something'
    a = 'seven'
    ts >= '2024-13-01'
    a IN ('1', 'x')
    a BETWEEN '1' AND 'x'
    a AND f
    NOT a
    NOT s
    f OR s
    f AND 1
    'true' AND f
    CASE WHEN a THEN 1 ELSE 2 END
    CASE WHEN s THEN 1 END
    IF(a, 1, 2)
    s + 1
    d + d
    d * 2
    f + f
    lower(a)
    year(s)
    abs(s)
    lower()
    lower(s, t)
    lower
    nullif(a)
    if(f, 1)
    nowhere
    "A nowhere"
    sin(d)
    1e99999
    99999999999999999999999999999999999999999
    0x7fffffffffffffff1
    'a
    "a
    a +
    (a
    a)
    a b c
    1 2
    == 1
    CASE END
    a BETWEEN 1
    IN (1)
"""
LISTS = {"statements": STATEMENTS, "subqueries": SUBQUERIES, "aggregates": AGGREGATES, "lambdas": LAMBDAS, "chance": CHANCE,
         "surroundings": SURROUNDINGS, "length": LENGTH, "types": TYPES}  # fmt: skip
HOSTILE = [(name, line.strip()) for name, lines in LISTS.items() for line in lines.splitlines() if line.strip()]
HARMLESS = {"a WINDOW w AS ()"}
"""What the parser takes away, because it means nothing."""
