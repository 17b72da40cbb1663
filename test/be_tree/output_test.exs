defmodule BeTree.OutputTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Outputs, Quiet}

  alias BeTree.{Error, Output}

  # Far more than a busy machine needs.
  @wait_ms 300_000

  doctest Output

  setup :quiet

  # Messages come late enough that a test sees them before the timer does.
  @never 3_600_000

  defp start(test, options) do
    start_output(:"#{inspect(__MODULE__)}.#{test}", Keyword.merge([sink: {:process, self()}], options))
  end

  defp start(%{test: test}), do: start(test, [])

  # Returns the next list of messages, and acknowledges it.
  defp take(name) do
    {messages, reference} = take_only(name)
    Output.ack(reference)
    messages
  end

  defp take_only(name) do
    receive do
      {:be_tree_output, ^name, {:messages, messages, reference}} -> {messages, reference}
    end
  end

  # Puts messages of ten bytes until one is not accepted, and returns their number and the error.
  defp fill(name, count \\ 0) do
    case Output.put(name, "1234567890") do
      :ok -> fill(name, count + 1)
      {:error, error} -> {count, error}
    end
  end

  describe "put/2" do
    test "delivers a message after linger, in order", %{test: test} do
      name = start(test, linger: 1)
      for number <- 1..3, do: Output.put(name, [?m, Integer.to_string(number)])
      assert Enum.take(Stream.repeatedly(fn -> take(name) end) |> Stream.flat_map(& &1), 3) == ["m1", "m2", "m3"]
      eventually(fn -> stats(name).delivered == 3 end)
    end

    test "delivers a full page before linger", %{test: test} do
      name = start(test, linger: @never, page: 20)
      for text <- ["1234567890", "abcdefghij", "next"], do: Output.put(name, text)
      assert take(name) == ["1234567890", "abcdefghij"]
      assert %{accepted: 3, senders: 1, pending_bytes: bytes} = stats(name)
      assert bytes >= 4
    end

    test "sends a message that is longer than a page alone, behind the open page", %{test: test} do
      name = start(test, linger: @never, page: 20)
      long = String.duplicate("x", 1_000_000)
      assert Output.put(name, "before") == :ok
      assert Output.put(name, long) == :ok
      assert take(name) == ["before"]
      assert take(name) == [long]
    end

    test "delivers the last messages of a process that ends or is killed", %{test: test} do
      name = start(test, linger: @never)
      spawn(fn -> Output.put(name, "ended") end)
      assert take(name) == ["ended"]
      parent = self()

      killed =
        spawn(fn ->
          Output.put(name, "killed")
          send(parent, :put)
          Process.sleep(:infinity)
        end)

      assert_receive :put, @wait_ms
      Process.exit(killed, :kill)
      assert take(name) == ["killed"]
      eventually(fn -> stats(name).senders == 0 end)
    end

    test "refuses a term that is no iodata, and changes nothing", context do
      name = start(context)

      for wrong <- [:atom, 5, %{}, [1_000], ["a" | :b], <<1::3>>] do
        assert_raise ArgumentError, ~r/a message is iodata, a binary or a list of bytes/, fn ->
          Output.put(name, wrong)
        end
      end

      assert_raise ArgumentError, ~r/messages are a list/, fn -> Output.put_many(name, "text") end
      assert stats(name).accepted == 0
    end

    test "returns the error no_server without an output" do
      assert {:error, %Error{kind: :no_server, message: "no output NoOutput runs"}} = Output.put(NoOutput, "m")
      assert {:error, %Error{kind: :no_server}} = Output.put_many(NoOutput, ["m"])
      assert {:error, %Error{kind: :no_server}} = Output.flush(NoOutput)
      assert {:error, %Error{kind: :no_server}} = Output.stats(NoOutput)
      assert {:error, %Error{kind: :no_server}} = Output.configure(NoOutput, linger: 1)
    end

    test "finds the output of this name after another one stopped", %{test: test} do
      name = start(test, [])
      assert Output.put(name, "first") == :ok
      take(name)
      :ok = stop_supervised(name)
      assert {:error, %Error{kind: :no_server}} = Output.put(name, "none")
      ^name = start(test, [])
      assert Output.put(name, "second") == :ok
      assert take(name) == ["second"]
    end
  end

  describe "put_many/2" do
    test "delivers lists of all lengths in order", %{test: test} do
      name = start(test, page: 100, buffer: [count: 1_000_000])
      texts = for number <- 1..5_000, do: String.duplicate("m", rem(number, 150)) <> Integer.to_string(number)
      sender = Task.async(fn -> Enum.each(Enum.chunk_every(texts, 700), &(:ok = Output.put_many(name, &1))) end)

      received =
        Stream.repeatedly(fn -> take(name) end)
        |> Enum.reduce_while([], fn messages, received ->
          received = Enum.reverse(messages, received)
          if length(received) == 5_000, do: {:halt, Enum.reverse(received)}, else: {:cont, received}
        end)

      assert received == texts
      Task.await(sender)
      assert Output.put_many(name, []) == :ok
    end

    test "returns the position of the first message that is dropped", %{test: test} do
      name = start(test, linger: @never, page: 10, buffer: [bytes: 40], overflow: :drop_new)
      {4, _error} = fill(name) |> then(fn {count, error} -> {count - 1, error} end)
      assert {:error, %Error{kind: :overloaded, position: 0}} = Output.put_many(name, ["1234567890", "b"])
      assert stats(name).dropped == 3
    end
  end

  describe "overflow" do
    test "drop_new drops messages until the queue is half empty, and tells the sink", %{test: test} do
      name = start(test, linger: @never, page: 10, buffer: [bytes: 40], overflow: :drop_new)
      {count, %Error{kind: :overloaded}} = fill(name)
      assert %{overloaded: true, dropped: 1, pending: ^count} = stats(name)
      # The last message is in the open page.
      for _ <- 1..(count - 1), do: take(name)
      assert_receive {:be_tree_output, ^name, {:dropped, 1}}, @wait_ms
      assert Output.put(name, "1234567890") == :ok
    end

    test "drop_old keeps the newest messages", %{test: test} do
      name = start(test, linger: @never, page: 10, buffer: [bytes: 40], overflow: :drop_old)
      Output.put(name, "first.....")
      Output.put(name, "second....")
      {["first....."], reference} = take_only(name)
      for number <- 100..199, do: assert(Output.put(name, "number #{number}") == :ok)
      Output.ack(reference)
      assert_receive {:be_tree_output, ^name, {:dropped, dropped}}, @wait_ms
      assert Enum.flat_map(1..4, fn _ -> take(name) end) == for(number <- 195..198, do: "number #{number}")
      eventually(fn -> match?(%{dropped: ^dropped, pending: 1}, stats(name)) end)
      assert dropped == 96
    end

    test "block lets senders wait for room, in order, and they time out", %{test: test} do
      name = start(test, linger: @never, page: 10, buffer: [bytes: 40], timeout: 1)
      assert {count, %Error{kind: :timeout}} = fill(name)
      :ok = Output.configure(name, timeout: :infinity)
      parent = self()

      waiting =
        for number <- 1..3 do
          pid =
            spawn(fn ->
              # The first message is the open page, the second one must wait.
              Output.put(name, "#{number}.........")
              send(parent, {:waits, number})
              :ok = Output.put(name, "#{number}.........")
              send(parent, {:went, number})
              Process.sleep(:infinity)
            end)

          assert_receive {:waits, ^number}, @wait_ms
          eventually(fn -> Process.info(pid, :status) == {:status, :waiting} end)
          pid
        end

      refute_received {:went, _number}
      for _ <- 1..(count - 1), do: take(name)
      for number <- 1..3, do: assert_receive({:went, ^number}, @wait_ms)
      assert Enum.map(1..3, fn _ -> take(name) end) == for(number <- 1..3, do: ["#{number}........."])
      for pid <- waiting, do: Process.exit(pid, :kill)
    end

    test "block passes the turn of a killed sender on", %{test: test} do
      name = start(test, linger: @never, page: 10, buffer: [bytes: 40], timeout: :infinity)
      [first, second] = for _ <- 1..2, do: spawn(fn -> fill(name) end)
      eventually(fn -> stats(name).overloaded end)
      Process.exit(first, :kill)
      for _ <- 1..50, do: take(name)
      Process.exit(second, :kill)
      eventually(fn -> stats(name).senders == 0 end)
    end

    test "block forgets senders that time out or are killed", %{test: test} do
      name = start(test, linger: @never, page: 10, buffer: [bytes: 40], timeout: 1)
      fill(name)
      for _ <- 1..20, do: {0, %Error{kind: :timeout}} = fill(name)
      :ok = Output.configure(name, timeout: :infinity)
      [{:writer, writer}] = :ets.lookup(name, :writer)
      waiting = fn -> :queue.len(:sys.get_state(writer).waiting) end
      assert waiting.() == 0
      senders = for _ <- 1..5, do: spawn(fn -> fill(name) end)
      eventually(fn -> waiting.() == 5 end)
      for pid <- senders, do: Process.exit(pid, :kill)
      eventually(fn -> waiting.() == 0 end)
    end

    test "block accepts a message that is longer than the buffer when the queue is empty", %{test: test} do
      name = start(test, linger: 0, page: 10, buffer: [bytes: 40], timeout: :infinity)

      sender =
        Task.async(fn -> for size <- [30, 1_000, 10, 2_000], do: Output.put(name, String.duplicate("x", size)) end)

      sizes = Stream.repeatedly(fn -> take(name) end) |> Stream.flat_map(& &1) |> Enum.take(4) |> Enum.map(&byte_size/1)
      assert sizes == [30, 1_000, 10, 2_000]
      assert Task.await(sender) == [:ok, :ok, :ok, :ok]
    end

    test "disconnect closes the output and tells the process", %{test: test} do
      name = start(test, linger: @never, page: 10, buffer: [bytes: 40], overflow: :disconnect)
      {count, %Error{kind: :closed}} = fill(name)
      assert_receive {:be_tree_output, ^name, :disconnected}, @wait_ms
      eventually(fn -> stats(name).closed != nil end)
      assert {:error, %Error{kind: :closed}} = Output.put(name, "m")
      assert %{pending: 0, accepted: ^count} = stats(name)
      :ok = Output.configure(name, sink: {:process, self()}, linger: 0)
      assert Output.put(name, "again") == :ok
      eventually(fn -> "again" in take(name) end)
    end
  end

  describe "flush/2" do
    test "waits until the messages of all processes are acknowledged", %{test: test} do
      name = start(test, linger: @never)
      Output.put(name, "mine")
      Task.await(Task.async(fn -> Output.put(name, "its") end))
      flush = Task.async(fn -> Output.flush(name) end)
      messages = Stream.repeatedly(fn -> take(name) end) |> Stream.flat_map(& &1) |> Enum.take(2)
      assert Enum.sort(messages) == ["its", "mine"]
      assert Task.await(flush) == :ok
      assert Output.flush(name) == :ok
    end

    test "returns the error timeout, and refuses a wrong timeout", %{test: test} do
      name = start(test, linger: @never)
      Output.put(name, "m")
      assert {:error, %Error{kind: :timeout}} = Output.flush(name, 1)
      assert_raise ArgumentError, ~r/timeout/, fn -> Output.flush(name, -1) end
    end
  end

  describe "configure/2" do
    test "changes page, buffer, linger and overflow of senders that run", %{test: test} do
      name = start(test, linger: @never)
      Output.put(name, "m")
      assert Output.configure(name, page: 10, buffer: [bytes: 40], overflow: :drop_new) == :ok
      assert {_count, %Error{kind: :overloaded}} = fill(name)
    end

    test "replaces the sink, and keeps the messages", %{test: test} do
      name = start(test, linger: @never)
      Output.put(name, "m")
      path = Path.join(System.tmp_dir!(), "be_tree_output_#{System.unique_integer([:positive])}")
      on_exit(fn -> File.rm(path) end)
      assert Output.configure(name, sink: {:file, path}) == :ok
      assert Output.flush(name) == :ok
      assert File.read!(path) == "m"
    end

    test "refuses a sink that cannot be opened, and keeps the former one", %{test: test} do
      name = start(test, linger: 0)

      assert {:error, %Error{kind: :file, message: message}} =
               Output.configure(name, sink: {:file, "/no/such/folder/file"})

      assert message =~ "enoent"
      Output.put(name, "m")
      assert take(name) == ["m"]
    end

    test "refuses unknown and wrong options", context do
      name = start(context)

      for {options, text} <- [
            {[unknown: 1], "unknown keys"},
            {[page: 0], "an integer from 1"},
            {[linger: :soon], "an integer from 0"},
            {[buffer: [bytes: 0]], "a list of :bytes and :count"},
            {[overflow: :drop], ":block, :drop_new, :drop_old or :disconnect"},
            {[sink: :user], "{:process, pid or name}"}
          ] do
        assert_raise ArgumentError, ~r/#{Regex.escape(text)}/, fn -> Output.configure(name, options) end

        assert_raise ArgumentError, ~r/#{Regex.escape(text)}/, fn ->
          Output.start_link(Keyword.merge([name: Wrong, sink: {:process, self()}], options))
        end
      end
    end
  end

  describe "start_link/1" do
    test "returns the error of a sink that cannot be opened" do
      Process.flag(:trap_exit, true)
      options = [name: Unopened, sink: {:file, "/no/such/folder/file"}]
      assert {:error, %Error{kind: :file}} = Output.start_link(options)
      assert :ets.whereis(Unopened) == :undefined
    end

    test "returns the error overloaded where another process has a table of the name", %{test: test} do
      name = :"#{inspect(__MODULE__)}.#{test}"
      :ets.new(name, [:named_table])
      other = spawn(fn -> Process.sleep(:infinity) end)
      :ets.give_away(name, other, nil)
      assert {:error, %Error{kind: :overloaded}} = Output.start_link(name: name, sink: {:process, self()})
      Process.exit(other, :kill)
    end

    test "refuses a second output of the same name, and other values for a name", context do
      name = start(context)
      assert {:error, {:already_started, _pid}} = Output.start_link(name: name, sink: {:process, self()})

      for wrong <- [nil, "name", 5],
          do: assert_raise(ArgumentError, ~r/:name takes an atom/, fn -> Output.start_link(name: wrong) end)
    end
  end

  describe "stopping" do
    test "writes what is pending", %{test: test} do
      path = Path.join(System.tmp_dir!(), "be_tree_output_#{System.unique_integer([:positive])}")
      on_exit(fn -> File.rm(path) end)
      name = start(test, linger: @never, sink: {:file, path})
      for number <- 1..1_000, do: Output.put(name, "#{number}\n")
      :ok = stop_supervised(name)
      assert File.read!(path) == Enum.map_join(1..1_000, &"#{&1}\n")
    end
  end

  describe "format/3" do
    test "formats in the sender, and as UTF-8 for a sink of bytes", %{test: test} do
      name = start(test, linger: 0)
      assert Output.format(name, "~p ~ts~n", [1, "α"]) == :ok
      assert take(name) == ["1 α\n"]
    end

    test "writes to the device of the name, or the group leader, without an output" do
      {:ok, device} = StringIO.open("")
      Process.register(device, :be_tree_output_device)
      assert Output.format(:be_tree_output_device, "~p", [2]) == :ok
      assert StringIO.contents(device) == {"", "2"}
      assert ExUnit.CaptureIO.capture_io(fn -> Output.format(NoSuchOutput, "three") end) == "three"
    end

    test "refuses a format that its arguments do not fit", context do
      name = start(context)
      assert_raise ArgumentError, ~r/the format takes other arguments/, fn -> Output.format(name, "~p", []) end
      assert_raise ArgumentError, ~r/the name of an output is an atom/, fn -> Output.format(self(), "~p", [1]) end
    end
  end
end
