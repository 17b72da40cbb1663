defmodule BeTree.Test.Published do
  @moduledoc "The documentation as it is published: its pages, and the documentation of public modules."

  @doc "Returns the options of ExDoc."
  def config, do: Mix.Project.config()[:docs]

  @doc "Returns the paths of the pages beside the modules."
  def pages, do: config()[:extras]

  @doc "Returns the public modules."
  def modules do
    {:ok, modules} = :application.get_key(:be_tree, :modules)
    Enum.filter(modules, &(from_lib?(&1) and not function_exported?(&1, :__impl__, 1) and public?(&1)))
  end

  defp from_lib?(module) do
    Code.ensure_loaded!(module)
    module.module_info(:compile)[:source] |> List.to_string() |> String.contains?("/lib/")
  end

  @doc "Returns whether a module has documentation that is not hidden."
  def public?(module) do
    match?({:docs_v1, _, _, _, docs, _, _} when docs not in [:hidden, :none], Code.fetch_docs(module))
  end

  @doc "Returns the texts of a public module, each with the name of the documented thing."
  def texts(module) do
    {:docs_v1, _, _, _, %{"en" => about}, _, entries} = Code.fetch_docs(module)

    [
      {inspect(module), about}
      | for {{_kind, name, arity}, _, _, %{"en" => text}, _} <- entries do
          {"#{inspect(module)}.#{name}/#{arity}", text}
        end
    ]
  end

  @doc "Returns whether `module` has a public function, macro, callback or type of this name and arity."
  def has?(module, name, arity) do
    {:docs_v1, _, _, _, _, _, entries} = Code.fetch_docs(module)

    Enum.any?(entries, fn {{_kind, entry, arguments}, _, _, docs, metadata} ->
      entry == name and docs != :hidden and arity in (arguments - Map.get(metadata, :defaults, 0))..arguments
    end)
  end
end
