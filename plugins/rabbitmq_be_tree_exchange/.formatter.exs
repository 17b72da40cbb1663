[inputs: ["{mix,.formatter,package}.exs", "{lib,test,bench}/**/*.{ex,exs}"], line_length: 120]
