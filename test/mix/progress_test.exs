defmodule Mix.BeTree.ProgressTest do
  use ExUnit.Case, async: true

  alias Mix.BeTree.Progress

  # A device that passes each written text to the test.
  defp device do
    test = self()
    spawn_link(fn -> pass_on(test) end)
  end

  defp pass_on(test) do
    receive do
      {:io_request, from, reference, {:put_chars, _encoding, text}} ->
        send(test, {:written, IO.chardata_to_string(text)})
        send(from, {:io_reply, reference, :ok})
    end

    pass_on(test)
  end

  test "writes lines during a single long step" do
    result =
      Progress.run(device(), false, 1, fn show ->
        show.("inserting", 12_000)
        assert_receive {:written, "inserting: 12,000, " <> _seconds}, 300_000
        assert_receive {:written, "inserting: 12,000, " <> _seconds}, 300_000
        show.("publishing", nil)
        assert_receive {:written, "publishing, " <> _seconds}, 300_000
        show.("measuring", 0.5)
        assert_receive {:written, "measuring: 50 %, " <> _seconds}, 300_000
        :done
      end)

    assert result == :done
  end

  test "overwrites one line of a terminal, and clears it at the end" do
    Progress.run(device(), true, 1, fn show ->
      show.("reading", nil)
      assert_receive {:written, "\rreading, " <> _rest}, 300_000
    end)

    assert_receive {:written, "\r\e[K"}, 300_000
  end

  test "passes an exception on" do
    assert_raise RuntimeError, "stopped", fn ->
      Progress.run(device(), false, 60_000, fn _show -> raise "stopped" end)
    end
  end

  test "writes nothing with the option quiet" do
    assert Progress.run([quiet: true], fn show -> show.("reading", nil) end) == :ok
  end
end
