defmodule BeTree.Cluster.Call do
  @moduledoc false
  # Calls functions on the nodes of shards. The first argument of each function is the name of the shard's server. Errors name the
  # shard.

  alias BeTree.Target.Shards
  alias BeTree.Input.{Describe, Limits}
  alias BeTree.Processes.Deadline
  alias BeTree.Error

  @typedoc "The function that each shard runs: a module and a name."
  @type function_name :: {module, atom}

  @doc """
  Calls a function of one shard, in the calling process if the shard is on this node. A remote call gets twice the timeout, because
  the shard may use the whole timeout itself.
  """
  @spec one(Shards.shard(), function_name, [term], timeout) :: term
  def one({name, node} = shard, {module, function}, arguments, timeout) do
    with {:error, %Error{} = error} <- apply_on(node, module, function, [name | arguments], timeout),
         do: {:error, named(error, shard)}
  end

  defp apply_on(node, module, function, arguments, _timeout) when node == node(), do: apply(module, function, arguments)

  defp apply_on(node, module, function, arguments, timeout) do
    :erpc.call(node, module, function, arguments, twice(timeout))
  catch
    kind, reason -> {:error, unreachable(kind, reason)}
  end

  @doc "Calls a function of all shards at once, and returns each shard with its result."
  @spec all(Shards.t(), function_name, [term], timeout) :: [{Shards.shard(), term}]
  def all(cluster, {module, function}, arguments, timeout) do
    {here, there} = cluster |> Shards.all() |> Enum.split_with(fn {_name, node} -> node == node() end)

    requests =
      for {name, node} = shard <- there,
          do: {shard, :erpc.send_request(node, module, function, [name | arguments])}

    results = for {name, _node} = shard <- here, do: {shard, apply(module, function, [name | arguments])}
    deadline = Deadline.new(twice(timeout))
    # The call waits for every reply, so that none arrives later, when no process expects it.
    for {shard, result} <- results ++ for({shard, request} <- requests, do: {shard, receive_reply(request, deadline)}),
        do: {shard, named_error(result, shard)}
  end

  defp receive_reply(request, deadline) do
    :erpc.receive_response(request, Deadline.left(deadline))
  catch
    kind, reason -> {:error, unreachable(kind, reason)}
  end

  @doc "Returns the milliseconds for which a call waits for a shard of this node, or of another one."
  @spec patience(node, timeout) :: timeout
  def patience(node, timeout), do: if(node == node(), do: timeout, else: twice(timeout))

  defp twice(:infinity), do: :infinity
  defp twice(timeout), do: min(2 * timeout, Limits.max_timeout())

  @doc "Returns the error of a shard whose process could not reply."
  @spec unreachable(:error | :exit | :throw, term) :: Error.t()
  def unreachable(:error, {:erpc, :timeout}), do: %Error{kind: :timeout, message: "it did not reply in time"}

  def unreachable(_kind, reason) when reason in [{:erpc, :noconnection}, :noconnection] do
    %Error{kind: :no_server, message: "its node cannot be reached, or was lost before it replied"}
  end

  def unreachable(kind, reason) do
    # The reason may have the arguments of a function, and so the event.
    %Error{kind: :no_server, message: "it could not reply: #{kind} #{Describe.reason(reason)}"}
  end

  defp named_error({:error, error}, shard), do: {:error, named(error, shard)}
  defp named_error(result, _shard), do: result

  @doc "Returns the error with the name of the shard in its message."
  @spec named(Error.t(), Shards.shard()) :: Error.t()
  def named(error, shard), do: %{error | message: "#{text(shard)}: #{error.message}"}

  @doc "Returns the name of a shard for a message."
  @spec text(Shards.shard()) :: String.t()
  def text({name, node}), do: "#{Describe.value(name)} of #{node}"
end
