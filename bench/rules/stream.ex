defmodule BeTree.Bench.Rules.Stream do
  @moduledoc false
  # A stream of logins, password changes, orders and payments of many users. It counts its takeovers and unpaid orders
  # without rules.

  @events_a_second 900
  @logins 5 * 60_000
  @orders 10 * 60_000

  @rules "../../wasm/rules/workloads/correlation.rules" |> Path.expand(__DIR__) |> File.read!()

  @enforce_keys [:users, :random]
  defstruct [:users, :random, number: 0, failed: %{}, due: :queue.new(), paid: MapSet.new(), open: [], notices: 0]

  def rules, do: @rules
  def events_a_second, do: @events_a_second

  def new(users), do: %__MODULE__{users: users, random: :rand.seed_s(:exsss, {1, 2, 3})}

  @doc "Returns the number of notices for the events so far."
  def notices(stream), do: stream.notices

  @doc "Returns the next facts."
  def facts(stream, count), do: Enum.map_reduce(1..count, stream, fn _number, stream -> fact(stream) end)

  defp fact(%{number: number} = stream) do
    number = number + 1
    time = div(1_000 * number, @events_a_second)
    {kind, random} = :rand.uniform_s(8, stream.random)
    {user, random} = :rand.uniform_s(stream.users, random)
    {choice, random} = :rand.uniform_s(1_000, random)
    stream = close(%{stream | number: number, random: random}, time)

    cond do
      kind <= 5 -> login(stream, time, user, kind > 2)
      kind == 6 -> change(stream, time, user)
      kind == 8 and stream.open != [] -> payment(stream, time, choice)
      true -> order(stream, time)
    end
  end

  # Windows due at a time close before that time's fact.
  defp close(stream, time) do
    case :queue.peek(stream.due) do
      {:value, {at, order}} when at + @orders <= time ->
        unpaid = if MapSet.member?(stream.paid, order), do: 0, else: 1
        stream = %{stream | due: :queue.drop(stream.due), paid: MapSet.delete(stream.paid, order)}
        close(%{stream | notices: stream.notices + unpaid}, time)

      _later ->
        stream
    end
  end

  defp login(stream, time, user, true), do: {{:login, %{user: user, ok: true, at: time}}, stream}

  defp login(stream, time, user, false) do
    failed = Map.update(stream.failed, user, [time], &[time | &1])
    {{:login, %{user: user, ok: false, at: time}}, %{stream | failed: failed}}
  end

  # Each failed login but the last has a successor.
  defp change(stream, time, user) do
    recent = for at <- Map.get(stream.failed, user, []), time - at < @logins, do: at
    stream = %{stream | failed: Map.put(stream.failed, user, Enum.take(recent, 1))}
    takeovers = max(length(recent) - 1, 0)
    {{:password_change, %{user: user, at: time}}, %{stream | notices: stream.notices + takeovers}}
  end

  defp order(stream, time) do
    open = Enum.take([stream.number | stream.open], 1_000)
    fact = {:order, %{id: stream.number, at: time}}
    {fact, %{stream | open: open, due: :queue.in({time, stream.number}, stream.due)}}
  end

  defp payment(stream, time, choice) do
    order = Enum.at(stream.open, rem(choice, length(stream.open)))
    {{:payment, %{order: order, at: time}}, %{stream | paid: MapSet.put(stream.paid, order)}}
  end
end
