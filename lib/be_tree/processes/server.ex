defmodule BeTree.Processes.Server do
  @moduledoc false
  # `use BeTree.Processes.Server` makes a GenServer whose crash reports have none of its data, and which ignores unknown messages.
  # The last clause of a callback passes a message that it does not know to `super`.

  defmacro __using__(_options) do
    quote do
      use GenServer
      use BeTree.Processes.CrashReport

      alias BeTree.Processes.Stray

      @impl GenServer
      def handle_call(call, _from, state), do: {:reply, Stray.refuse(call), state}

      @impl GenServer
      def handle_cast(cast, state) do
        Stray.ignore(:cast, cast)
        {:noreply, state}
      end

      @impl GenServer
      def handle_info(message, state) do
        Stray.ignore(:message, message)
        {:noreply, state}
      end

      defoverridable handle_call: 3, handle_cast: 2, handle_info: 2
    end
  end
end
