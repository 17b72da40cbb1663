[inputs: ["mix.exs", "{config,lib,test}/**/*.{ex,exs}"], line_length: 120]
