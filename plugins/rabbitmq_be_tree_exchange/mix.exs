defmodule BeTreeExchange.MixProject do
  use Mix.Project

  # The modules of the broker are there at run time only: one build serves all of its versions.
  @broker [
    :khepri,
    :khepri_projection,
    :khepri_tx_adv,
    :mc,
    :prometheus_model_helpers,
    :prometheus_registry,
    :rabbit_binary_parser,
    :rabbit_binding,
    :rabbit_db_binding,
    :rabbit_db_exchange,
    :rabbit_khepri,
    :rabbit_exchange,
    :rabbit_misc,
    :rabbit_policy,
    :rabbit_registry
  ]

  def project do
    [
      app: :rabbitmq_be_tree_exchange,
      version: "0.1.0",
      elixir: "~> 1.14",
      description: "An exchange type that routes by boolean expressions in bindings",
      start_permanent: true,
      elixirc_options: [no_warn_undefined: @broker],
      deps: [{:be_tree, path: "../.."}]
    ]
  end

  # The broker, `rabbit`, is not there when this is built. A plugin is started after it.
  def application, do: [mod: {BeTreeExchange.Application, []}, extra_applications: [:logger, :rabbit]]
end
