[
  inputs: ["{mix,.formatter}.exs", "{lib,tools,test,bench,examples}/**/*.{ex,exs}"],
  line_length: 120
]
