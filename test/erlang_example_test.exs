defmodule BeTree.ErlangExampleTest do
  use ExUnit.Case

  import ExUnit.CaptureIO

  @compile {:no_warn_undefined, :ads}

  @sources Path.wildcard("examples/erlang/src/*.erl")
  @page "docs/guides/erlang.md"

  # rebar3 and eunit may not be here, so the example is compiled and run by itself; `make test PART=erlang` runs its tests.
  setup_all do
    modules =
      for source <- @sources do
        assert {:ok, module, code} =
                 :compile.file(String.to_charlist(source), [:binary, :return_errors, :warnings_as_errors])

        assert {:module, ^module} = :code.load_binary(module, String.to_charlist(source), code)
        module
      end

    on_exit(fn -> for module <- modules, do: :code.delete(module) and :code.purge(module) end)
  end

  test "the example prints what its page shows" do
    page = File.read!(@page)
    assert "examples/erlang/src/ads.erl" in @sources

    for module <- [:ads, :ads_live] do
      printed = capture_io(fn -> assert module.main() == :ok end)
      assert page =~ "`#{module}:main()` prints:\n\n```\n#{printed}```\n"
    end
  end

  test "the live example prints what its page shows" do
    sources = Enum.map_join(@sources ++ ["examples/erlang/src/ads.app.src"], &File.read!/1)
    blocks = Regex.scan(~r/^```erlang\n((?!%%).*?)^```$/ms, File.read!(@page), capture: :all_but_first)
    assert length(blocks) >= 5
    for [block] <- blocks, do: assert(sources =~ block)
  end

  test "the example refuses, matches and reports reasons" do
    request = fn country, age -> [{:request, 0, country, :undefined, :undefined, :undefined}, {:user, age}] end
    assert :ads.new([{1, [], "age > 1"}, {2, [], "age >"}]) == {:error, {2, {:error, :failed}}}
    {:ok, tree} = :ads.new([{1, [], "country = 'CA' and age >= 21"}, {2, [], "country = 'US'"}])
    assert :ads.matching(tree, request.("CA", 30)) == [1]
    assert {[1], microseconds} = :ads.matching_timed(tree, request.("CA", 30))
    assert is_integer(microseconds)
    assert :ads.why_not(tree, request.("CA", 20)) == [country: [2], age: [1]]
    assert :ads.why_not(tree, request.(:undefined, 20)) == [invalid_event: [1, 2]]
  end
end
