ExUnit.after_suite(fn _result -> File.rm_rf!(Application.fetch_env!(:fraud, :dir)) end)
ExUnit.start(timeout: 300_000)
