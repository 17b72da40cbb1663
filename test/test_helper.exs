missing = BeTree.Test.Runtimes.missing()
for runtime <- missing, do: IO.puts("Left out: the cases of #{inspect(runtime)}, which cannot be used here.")

no_browser = BeTree.Test.Browser.missing()
if no_browser, do: IO.puts("Left out: the cases in a browser. Missing: #{no_browser}.")

# These limits end hanging tests. They are far above the time of any test on a busy machine.
ExUnit.start(
  formatters: [BeTree.Test.Formatter],
  # `make test PART=runtimes` includes the foreign ones.
  exclude: [:foreign] ++ for(runtime <- missing, do: {:runtime, runtime}) ++ if(no_browser, do: [:browser], else: []),
  assert_receive_timeout: 30_000,
  timeout: 600_000
)

# Small attacks repeat one seed; full ones do not.
unless System.get_env("BE_TREE_SEED") do
  seed = BeTree.Test.Attack.size(1, System.unique_integer([:positive]) + System.os_time())
  System.put_env("BE_TREE_SEED", Integer.to_string(seed))
end

if BeTree.Test.Attack.full?(), do: IO.puts("BE_TREE_SEED=#{BeTree.Test.Attack.seed()} repeats these attacks.")
