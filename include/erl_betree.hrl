%% Clock types. Any other integer counts as monotonic.
-define(CLOCK_REALTIME, 0).
-define(CLOCK_MONOTONIC, 1).
-define(CLOCK_PROCESS_CPUTIME_ID, 2).
-define(CLOCK_THREAD_CPUTIME_ID, 3).

%% For how long a call of search_yield/4 and search_next_yield/3 runs, in microseconds; 0 evaluates a candidate a call.
-define(THRESHOLD_1_000_MICROSECONDS, 1_000).
-define(THRESHOLD_0_MICROSECONDS, 0).
