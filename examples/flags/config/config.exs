import Config

config :flags,
  # The folder with the image, which `mix flags.build` writes.
  dir: "image",
  # Milliseconds between two looks at it, and the most that a search may take.
  poll: 1_000,
  search_timeout: 1_000,
  # Used by `mix flags.build` alone: an image has its schema.
  schema: [
    user_id: :integer,
    bucket: {:integer, min: 0, max: 99},
    plan: {:string, optional: true},
    country: {:string, optional: true},
    beta: {:boolean, optional: true},
    app_version: {:integer, optional: true}
  ]

# A busy machine may take long for a search.
if config_env() == :test do
  config :flags, dir: Path.join(System.tmp_dir!(), "flags_test_#{System.pid()}"), poll: 10, search_timeout: :infinity
  config :logger, level: :error
end
