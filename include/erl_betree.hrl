%% The types of clocks. Any other integer means the monotonic clock.
-define(CLOCK_REALTIME, 0).
-define(CLOCK_MONOTONIC, 1).
-define(CLOCK_PROCESS_CPUTIME_ID, 2).
-define(CLOCK_THREAD_CPUTIME_ID, 3).

%% The microseconds for which a call of search_yield/4 or search_next_yield/3 runs. With 0 a call evaluates one candidate.
-define(THRESHOLD_1_000_MICROSECONDS, 1_000).
-define(THRESHOLD_0_MICROSECONDS, 0).
