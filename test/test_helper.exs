missing = BeTree.Test.Runtimes.missing()
for runtime <- missing, do: IO.puts("Left out: the cases of #{inspect(runtime)}, which cannot be used here.")

# A message that comes is not waited for any longer; on a busy machine it may be late.
ExUnit.start(exclude: for(runtime <- missing, do: {:runtime, runtime}), assert_receive_timeout: 30_000)
