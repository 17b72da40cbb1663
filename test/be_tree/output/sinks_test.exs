defmodule BeTree.Output.SinksTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Logs, Outputs, Quiet}

  alias BeTree.{Error, Output}

  setup :quiet

  # Far more than a busy machine needs.
  @wait_ms 300_000

  @moduletag :tmp_dir

  defp start(test, options), do: start_output(:"#{inspect(__MODULE__)}.#{test}", options)

  defmodule Scripted do
    @moduledoc false
    # A sink that asks the test what to do.
    @behaviour Output.Sink

    @impl true
    def open(test), do: ask(test, :open)

    @impl true
    def write(messages, test), do: ask(test, {:write, messages})

    @impl true
    def close(test), do: send(test, :closed)

    defp ask(test, request) do
      send(test, {self(), request})

      receive do
        :raise -> raise "the test says so"
        {:raise, exception} -> raise exception
        {:answer, answer} -> answer
      end
    end
  end

  defmodule Unreachable do
    @moduledoc false
    # A sink that cannot be opened.
    @behaviour Output.Sink

    @impl true
    def open(host), do: raise("cannot reach #{host}")

    @impl true
    def write(_messages, host), do: {:ok, host}
  end

  defmodule Closing do
    @moduledoc false
    # A sink that refuses each message with a reason, and whose end fails. `fail` raises or throws.
    @behaviour Output.Sink

    @impl true
    def open({test, reason, fail}) do
      send(test, {:opened, self()})
      {:ok, {reason, fail}}
    end

    @impl true
    def write(_messages, {:block, _fail}), do: Process.sleep(:infinity)
    def write(_messages, {reason, _fail} = state), do: {:stop, reason, state}

    @impl true
    def close({_reason, fail}), do: fail.()

    @impl true
    def disconnect({test, _reason, fail}) do
      send(test, {:disconnects, self()})
      receive(do: (:go -> fail.()))
    end
  end

  defp answer(request, answer) do
    receive do
      {sink, ^request} -> send(sink, answer)
    end
  end

  defp start_scripted(test, options \\ []) do
    parent = self()
    name = :"#{inspect(__MODULE__)}.#{test}"
    options = Keyword.merge([name: name, sink: {Scripted, self()}, linger: 0], options)

    task =
      Task.async(fn ->
        Output.start_link(options) |> tap(fn _ -> send(parent, :started) && Process.sleep(:infinity) end)
      end)

    answer(:open, {:answer, {:ok, self()}})
    assert_receive :started, @wait_ms
    on_exit(fn -> Process.exit(task.pid, :kill) end)
    name
  end

  describe "a module" do
    test "loses the messages that it refuses, and goes on", %{test: test} do
      name = start_scripted(test)
      Output.put(name, "one")
      answer({:write, ["one"]}, {:answer, {:error, :enospc, self()}})
      eventually(fn -> stats(name).lost == 1 end)
      Output.put(name, "two")
      answer({:write, ["two"]}, {:answer, {:ok, self()}})
      eventually(fn -> stats(name).delivered == 1 end)
    end

    test "is opened again after it raised or stopped, and messages wait meanwhile", %{test: test} do
      name = start_scripted(test)
      Output.put(name, "raises")
      answer({:write, ["raises"]}, :raise)
      answer(:open, {:answer, {:error, :not_yet}})
      Output.put(name, "waits")
      answer(:open, {:answer, {:ok, self()}})
      answer({:write, ["waits"]}, {:answer, {:stop, :over, self()}})
      assert_receive :closed, @wait_ms
      answer(:open, {:answer, {:ok, self()}})
      Output.put(name, "last")
      answer({:write, ["last"]}, {:answer, {:ok, self()}})
      eventually(fn -> match?(%{delivered: 1, lost: 2}, stats(name)) end)
    end

    test "that raises is logged with the exception, without values of messages", %{test: test} do
      name = start_scripted(test)

      {_result, lines} =
        with_log("BeTree: the sink #{inspect(Scripted)}", fn ->
          lose(name, "raises", :raise)
          lose(name, "raises", {:raise, %MatchError{term: "a private message"}})
          lose(name, "returns", {:answer, :ok})
        end)

      assert [raised, unmatched, returned] = lines
      assert raised =~ "raised RuntimeError: the test says so\n" and raised =~ "sinks_test.exs:"
      assert unmatched =~ "raised MatchError\n" and unmatched =~ "sinks_test.exs:"
      refute unmatched =~ "private"
      assert returned =~ "raised ArgumentError: write/2 or dropped/2 returns {:ok, state}"
    end

    # Returns when the sink is open again, so its failure is logged.
    defp lose(name, message, answer) do
      Output.put(name, message)
      answer({:write, [message]}, answer)
      answer(:open, {:answer, {:ok, self()}})
    end

    test "that raises while it is opened refuses the start with the exception" do
      Process.flag(:trap_exit, true)
      sink = {BeTree.Output.SinksTest.Unreachable, "logs.example.com"}

      {result, [_line]} =
        with_log("BeTree: the sink #{inspect(elem(sink, 0))}", fn ->
          Output.start_link(name: __MODULE__.Unopened, sink: sink)
        end)

      assert {:error, %Error{kind: :file, message: message}} = result
      assert message =~ "raised RuntimeError: cannot reach logs.example.com"
    end

    test "is logged with the text or the exception of its reason, in one line", %{test: test} do
      name = start_scripted(test)

      for {reason, expected} <- [
            {"connection refused\nby logs.example.com", ~r/: connection refused by logs.example.com$/},
            {String.duplicate("long ", 200), ~r/: (long ){99}long \.\.\.$/},
            {<<255, 254>>, ~r/: a binary of 2 bytes$/},
            {%RuntimeError{message: "the quota is used up"}, ~r/: RuntimeError: the quota is used up$/},
            {%MatchError{term: "a private message"}, ~r/: MatchError$/}
          ] do
        # Each writer logs its first loss at once.
        {_result, [line]} = with_log(inspect(name), fn -> lose(name, "one", {:answer, {:stop, reason, self()}}) end)
        assert line =~ "lost 1 messages, because its sink failed"
        assert line =~ expected
        restart_writer(name)
      end
    end

    defp restart_writer(name) do
      {:ok, writer} = Output.Settings.fetch(name, :writer)
      Process.exit(writer, :kill)
      answer(:open, {:answer, {:ok, self()}})
      eventually(fn -> match?({:ok, pid} when pid != writer, Output.Settings.fetch(name, :writer)) end)
    end

    test "whose close/1 fails is logged with the reason for which it stopped", %{test: test} do
      for {number, fail} <- [{1, fn -> raise "the socket is gone" end}, {2, fn -> throw(:the_socket) end}] do
        sink = {Closing, {self(), "connection refused", fail}}
        name = start(:"#{test} #{number}", sink: sink, linger: 0)
        assert_receive {:opened, _sink}, @wait_ms

        {_result, lines} =
          with_log(~r/#{inspect(name)}|#{inspect(Closing)}/, fn ->
            Output.put(name, "one")
            # The sink is opened again.
            assert_receive {:opened, _sink}, @wait_ms
          end)

        assert Enum.any?(lines, &(&1 =~ "because its sink failed: connection refused"))
        assert Enum.any?(lines, &(&1 =~ ~r/raised RuntimeError: the socket is gone|threw an atom/))
      end
    end

    test "whose disconnect/1 fails is logged, and the output says why it was closed", %{test: test} do
      for {number, fail} <- [{1, fn -> raise "the socket is gone" end}, {2, fn -> throw(:the_socket) end}] do
        options = [sink: {Closing, {self(), :block, fail}}, page: 10, buffer: [bytes: 40], overflow: :disconnect]
        name = start(:"#{test} #{number}", options)
        {:ok, writer} = Output.Settings.fetch(name, :writer)

        {_result, [line]} =
          with_log(inspect(Closing), fn ->
            overflow(name)
            assert_receive {:disconnects, sink}, @wait_ms
            monitor = Process.monitor(sink)
            send(sink, :go)
            assert_receive {:DOWN, ^monitor, :process, ^sink, :normal}, @wait_ms
          end)

        assert line =~ ~r/raised RuntimeError: the socket is gone|threw an atom/
        eventually(fn -> stats(name).closed != nil end)
        assert {:error, %Error{kind: :closed, message: message}} = Output.put(name, "m")
        assert message =~ "its sink was too slow"
        assert Output.Settings.fetch(name, :writer) == {:ok, writer}
        assert Process.alive?(writer)
      end
    end

    defp overflow(name), do: if(Output.put(name, "message") == :ok, do: overflow(name))

    test "that can never be opened closes the output", %{test: test} do
      name = start_scripted(test)
      Output.put(name, "one")
      answer({:write, ["one"]}, {:answer, {:stop, :over, self()}})
      answer(:open, {:answer, {:closed, :for_good}})
      eventually(fn -> stats(name).closed != nil end)
      assert {:error, %Error{kind: :closed, message: "the sink is gone: :for_good" <> _}} = Output.put(name, "two")
      assert {:error, %Error{kind: :closed}} = Output.flush(name)
    end
  end

  describe "a process" do
    test "that ends without an acknowledgement loses its messages, and the output closes", %{test: test} do
      sink = spawn(fn -> receive do: ({:be_tree_output, _name, {:messages, _messages, _reference}} -> :ok) end)
      name = start(test, sink: {:process, sink}, linger: 0)
      Output.put(name, "one")
      eventually(fn -> stats(name).closed != nil end)
      assert %{lost: 1, delivered: 0} = stats(name)
    end

    test "with a name is found again", %{test: test} do
      process = :"#{test} sink"
      parent = self()
      sink = spawn(fn -> forward(parent) end)
      Process.register(sink, process)
      name = start(test, sink: {:process, process}, linger: 0)
      Output.put(name, "one")
      assert_receive {:forwarded, ["one"]}, @wait_ms
      monitor = Process.monitor(sink)
      Process.exit(sink, :kill)
      assert_receive {:DOWN, ^monitor, _, _, _}, @wait_ms
      eventually(fn -> Process.whereis(process) == nil end)
      Process.register(spawn(fn -> forward(parent) end), process)

      eventually(fn ->
        Output.put(name, "two")
        stats(name).delivered >= 2
      end)
    end
  end

  defp forward(parent) do
    receive do
      {:be_tree_output, _name, {:messages, messages, reference}} ->
        Output.ack(reference)
        send(parent, {:forwarded, messages})
    end

    forward(parent)
  end

  describe "a device" do
    test "gets text in its encoding", %{test: test, tmp_dir: folder} do
      for {encoding, expected} <- [utf8: "aäα\n", latin1: <<"a", 0xE4, "\\x{3B1}\n">>] do
        path = Path.join(folder, "#{encoding}")
        {:ok, device} = :file.open(path, [:write, encoding: encoding])
        name = start("#{test} #{encoding}", sink: {:device, device})
        assert Output.put(name, [?a, "ä", ?α]) == :ok
        assert Output.format(name, "~n", []) == :ok
        assert Output.flush(name) == :ok
        assert File.read!(path) == expected
      end
    end

    test "refuses bytes that are no text, and a message without text", %{test: test} do
      {:ok, device} = StringIO.open("")
      name = start(test, sink: {:device, device})
      assert_raise ArgumentError, ~r/text in UTF-8/, fn -> Output.put(name, <<255>>) end
      assert_raise ArgumentError, ~r/text in UTF-8/, fn -> Output.put(name, :atom) end
      assert Output.put(name, "a") == :ok
      # The second message has a sender that knows the encoding.
      assert_raise ArgumentError, ~r/text in UTF-8/, fn -> Output.put(name, <<255>>) end
      assert Output.flush(name) == :ok
      assert StringIO.contents(device) == {"", "a"}
    end

    test "that answers an error loses messages, and gets a line with the number of dropped messages", %{test: test} do
      parent = self()
      device = spawn(fn -> device(parent) end)
      name = start(test, sink: {:device, device}, linger: 0, page: 10, buffer: [bytes: 20], overflow: :drop_new)
      Output.put(name, "one")
      assert_receive {:written, from, "one"}, @wait_ms
      send(from, {:error, :enospc})
      eventually(fn -> stats(name).lost == 1 end)
      Output.put(name, "1234567890")
      assert_receive {:written, from, "1234567890"}, @wait_ms
      eventually(fn -> match?({:error, %Error{kind: :overloaded}}, Output.put(name, "1234567890")) end)
      send(from, :ok)
      assert_receive {:written, from, "BeTree.Output: 1 messages dropped\n" <> _}, @wait_ms
      send(from, :ok)
    end
  end

  # Answers a request as the test says.
  defp device(parent) do
    receive do
      {:io_request, from, reference, {:put_chars, :unicode, text}} ->
        send(parent, {:written, self(), IO.iodata_to_binary(text)})

        receive do
          answer -> send(from, {:io_reply, reference, answer})
        end

      {:io_request, from, reference, :getopts} ->
        send(from, {:io_reply, reference, []})
    end

    device(parent)
  end

  describe "a file" do
    test "is appended to", %{test: test, tmp_dir: folder} do
      path = Path.join(folder, "file")
      File.write!(path, "before\n")
      name = start(test, sink: {:file, path})
      assert Output.put_many(name, ["one\n", ["two", ?\n]]) == :ok
      assert Output.flush(name) == :ok
      assert File.read!(path) == "before\none\ntwo\n"
    end

    test "on a full disk loses messages, and counts them", %{test: test} do
      if File.exists?("/dev/full") do
        name = start(test, sink: {:file, "/dev/full"})
        assert Output.put(name, "one") == :ok
        assert Output.flush(name) == :ok
        assert %{lost: 1, delivered: 0} = stats(name)
      end
    end
  end

  describe "a socket" do
    test "gets the messages, and closes the output when the other side is gone", %{test: test} do
      {:ok, listening} = :gen_tcp.listen(0, [:binary, active: false, ip: {127, 0, 0, 1}])
      {:ok, port} = :inet.port(listening)
      {:ok, socket} = :gen_tcp.connect({127, 0, 0, 1}, port, [:binary, active: false])
      {:ok, other} = :gen_tcp.accept(listening)
      name = start(test, sink: {:tcp, socket}, linger: 0)
      assert Output.put_many(name, ["one,", "two"]) == :ok
      assert Output.flush(name) == :ok
      assert :gen_tcp.recv(other, 7) == {:ok, "one,two"}
      :gen_tcp.close(other)

      eventually(fn ->
        Output.put(name, "three")
        stats(name).closed != nil
      end)

      assert stats(name).pending == 0
    end

    test "that is closed refuses to start", %{test: test} do
      {:ok, socket} = :gen_tcp.listen(0, [])
      :gen_tcp.close(socket)
      Process.flag(:trap_exit, true)
      assert {:error, %Error{kind: :file}} = Output.start_link(name: test, sink: {:tcp, socket})
    end
  end
end
