// Match reads one JSON object a line, and prints the ids of its matches, or why it was refused:
//
//	go run ./examples/match -timeout 50ms ads.wasm < events
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"betree"
)

func main() {
	log.SetFlags(0)
	timeout := flag.Duration("timeout", time.Minute, "time limit of a search, or 0 for none and faster searches")
	memory := flag.Uint64("memory", 0, "limit on the memory of the index in bytes, or 0 for 64 MiB more than the image has")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: match [-timeout 1s] [-memory BYTES] IMAGE < EVENTS")
	}
	if err := match(flag.Arg(0), *timeout, *memory); err != nil {
		log.Fatal(err)
	}
}

func match(path string, timeout time.Duration, memory uint64) error {
	ctx := context.Background()
	image, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	index, err := betree.Load(ctx, image, betree.Options{Memory: memory, NoTimeLimit: timeout == 0})
	if err != nil {
		return err
	}
	defer index.Close(ctx)

	// A Scanner would bound the length of a line.
	events := bufio.NewReader(os.Stdin)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	for {
		event, err := events.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(event) > 0 {
			fmt.Fprintln(output, line(ctx, index, event, timeout))
		}
		if err == io.EOF {
			return nil
		}
	}
}

func line(ctx context.Context, index *betree.Index, event []byte, timeout time.Duration) string {
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	ids, err := index.Search(ctx, event)
	var refusal *betree.Error
	switch {
	case errors.As(err, &refusal):
		return fmt.Sprintf("refused: %s", refusal.Kind)
	case err != nil:
		return fmt.Sprintf("failed: %s", err)
	default:
		return strings.ReplaceAll(fmt.Sprint(ids), " ", ",")
	}
}
