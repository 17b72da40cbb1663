missing = BeTree.Test.Runtimes.missing()
for runtime <- missing, do: IO.puts("Left out: the cases of #{inspect(runtime)}, which cannot be used here.")

ExUnit.start(exclude: for(runtime <- missing, do: {:runtime, runtime}))
