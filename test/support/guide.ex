defmodule BeTree.Test.Guide do
  @moduledoc """
  Runs the Elixir blocks of a Markdown file, in order and with common bindings, as a reader would type them.

  A block with `iex>` prompts is compared with the results below them: a value, `** (Module) message`, or, for a value that
  prints as `#Name<...>`, its printed form. Other blocks are evaluated, modules and matches included. A block after
  `<!-- not run -->` is skipped, and so is the set-up of a notebook (`Mix.install`).
  """

  import ExUnit.Assertions

  @block ~r/^(<!-- not run -->\n)?```elixir\n(.*?)^```$/ms
  @set_up ~r/^Mix\.install\(/m

  @doc """
  Runs the file at `path` and returns the number of blocks that it ran.
  """
  @spec run(Path.t()) :: non_neg_integer
  def run(path) do
    page = File.read!(path)

    blocks =
      for [{at, _}, mark, {from, length}] <- Regex.scan(@block, page, return: :index), do: {at, mark, from, length}

    run =
      for {at, {_, 0}, from, length} <- blocks,
          block = binary_part(page, from, length),
          not Regex.match?(@set_up, block),
          do: {line(page, at) + 1, block}

    Enum.reduce(run, {[], Code.env_for_eval(file: path)}, fn {line, block}, state ->
      block |> steps(line) |> Enum.reduce(state, &step(&1, &2, path))
    end)

    length(run)
  end

  defp line(page, at), do: page |> binary_part(0, at) |> String.split("\n") |> length()

  # {line, code, the expected result or nil}
  defp steps("iex>" <> _ = block, line) do
    block
    |> String.split("\n")
    |> Enum.with_index(line)
    |> Enum.reduce([], fn
      {"iex> " <> code, line}, steps -> [{line, code, nil} | steps]
      {"...> " <> code, _line}, [{line, before, nil} | steps] -> [{line, before <> "\n" <> code, nil} | steps]
      {"", _line}, steps -> steps
      {text, _line}, [{line, code, nil} | steps] -> [{line, code, text} | steps]
      {text, _line}, [{line, code, expected} | steps] -> [{line, code, expected <> "\n" <> text} | steps]
    end)
    |> Enum.reverse()
  end

  defp steps(block, line), do: [{line, block, nil}]

  defp step({line, code, expected}, {binding, env}, path) do
    case {evaluate(code, binding, env, path, line), expected} do
      {{:raised, error, _stack}, "** (" <> _} ->
        got = "** (#{inspect(error.__struct__)}) #{Exception.message(error)}"
        assert got == expected, "#{path}:#{line}: #{code}\nraised   #{got}\nexpected #{expected}"
        {binding, env}

      {{:raised, error, stack}, _} ->
        flunk("#{path}:#{line}: #{code}\n#{Exception.format(:error, error, stack)}")

      {{_value, binding, env}, nil} ->
        {binding, env}

      {{value, binding, env}, "#" <> _} ->
        assert inspect(value) == expected, "#{path}:#{line}: #{code}\nreturned #{inspect(value)}\nexpected #{expected}"
        {binding, env}

      {{value, binding, env}, _} ->
        {wanted, _, _} = evaluate(expected, binding, env, path, line)
        assert value == wanted, "#{path}:#{line}: #{code}\nreturned #{inspect(value)}\nexpected #{expected}"
        {binding, env}
    end
  end

  defp evaluate(code, binding, env, path, line) do
    quoted = Code.string_to_quoted!(code, file: path, line: line)
    Code.eval_quoted_with_env(quoted, binding, env)
  rescue
    error -> {:raised, error, __STACKTRACE__}
  end
end
