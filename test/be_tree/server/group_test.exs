defmodule BeTree.Server.GroupTest do
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Server.Group

  defp row(version), do: {version, [], [{version, "a = 1", []}]}
  defp from, do: {self(), make_ref()}

  test "rows/1 returns the rows in the order of their versions, and none of a refusal" do
    group =
      Group.new()
      |> Group.add(from(), :ok, row(1))
      |> Group.add(from(), :refused, nil)
      |> Group.add(from(), :ok, row(2))

    assert Group.rows(group) == [row(1), row(2)]
    assert Group.rows(Group.new()) == []
  end

  test "full?/1 bounds the changes and refusals that share a sync" do
    group = Enum.reduce(1..255, Group.new(), fn version, group -> Group.add(group, from(), :ok, row(version)) end)
    refute Group.full?(group)
    assert Group.full?(Group.add(group, from(), {:error, :refused}, nil))
  end

  test "acknowledge/1 sends each caller its reply, in order" do
    callers = [first, second] = [from(), from()]
    [{_pid, first_tag}, {_other, second_tag}] = callers

    :ok =
      Group.new()
      |> Group.add(first, {:ok, 1}, row(1))
      |> Group.add(second, {:error, :refused}, nil)
      |> Group.acknowledge()

    assert {:messages, [{^first_tag, {:ok, 1}}, {^second_tag, {:error, :refused}}]} = Process.info(self(), :messages)
  end

  test "refuse/2 sends the error to all callers" do
    {_pid, tag} = caller = from()
    error = %Error{kind: :file, message: "no space left"}
    :ok = Group.new() |> Group.add(caller, {:ok, 1}, row(1)) |> Group.refuse(error)
    assert_received {^tag, {:error, ^error}}
  end
end
