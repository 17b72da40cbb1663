package betree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// The images come from the tests in Elixir (make test PART=runtimes).
func readImage(t testing.TB, variable string) []byte {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s names no image; make test PART=runtimes runs these tests", variable)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func load(t testing.TB, image []byte, options Options) *Index {
	t.Helper()
	ctx := context.Background()
	index, err := Load(ctx, image, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.Close(ctx) })
	return index
}

func search(t testing.TB, index *Index, event string) []uint64 {
	t.Helper()
	ids, err := index.Search(context.Background(), []byte(event))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func refusal(t testing.TB, err error) *Error {
	t.Helper()
	var refusal *Error
	if !errors.As(err, &refusal) {
		t.Fatalf("expected an *Error, got %v", err)
	}
	return refusal
}

func TestLoadRefusesBytesThatAreNoImage(t *testing.T) {
	image := readImage(t, "BE_TREE_IMAGE")
	damaged := bytes.Clone(image)
	damaged[len(damaged)/2] ^= 1
	later := bytes.Clone(image)
	later[versionAt] = 9
	for _, row := range []struct {
		bytes   []byte
		message string
	}{
		{nil, "no image"},
		{[]byte(strings.Repeat("a", 1000)), "no image"},
		{[]byte(moduleStart + strings.Repeat("\x00", 1000)), "no image"},
		{image[:len(image)-1], fmt.Sprintf("has %d bytes; expected %d", len(image)-1, len(image))},
		{damaged, "SHA-256"},
		{later, "version is 9; expected 1"},
	} {
		_, err := Load(context.Background(), row.bytes, Options{})
		if failure := refusal(t, err); failure.Kind != BadImage || !strings.Contains(failure.Message, row.message) {
			t.Errorf("expected a bad image with %q, got %v", row.message, err)
		}
	}
}

func TestLoadRefusesAnImageBeyondTheMemoryLimit(t *testing.T) {
	_, err := Load(context.Background(), readImage(t, "BE_TREE_IMAGE"), Options{Memory: 1 << 16})
	if failure := refusal(t, err); failure.Kind != OutOfMemory || !strings.Contains(failure.Message, "Options.Memory") {
		t.Errorf("expected out of memory, got %v", err)
	}
}

func TestSearchSaysWhatIsWrongWithAnEvent(t *testing.T) {
	index := load(t, readImage(t, "BE_TREE_IMAGE"), Options{})
	before := search(t, index, `{}`)
	for _, row := range []struct {
		event     string
		kind      Kind
		attribute string
		hasColumn bool
	}{
		{`{"i": `, Syntax, "", true},
		{`{"i": "text"}`, Type, "i", true},
		{`{"i": 9223372036854775808}`, OutOfBounds, "i", true},
	} {
		_, err := index.Search(context.Background(), []byte(row.event))
		failure := refusal(t, err)
		if failure.Kind != row.kind || failure.Attribute != row.attribute || failure.Message == "" || failure.Column > 0 != row.hasColumn {
			t.Errorf("%s: unexpected %#v", row.event, failure)
		}
	}
	if after := search(t, index, `{}`); !slices.Equal(before, after) {
		t.Errorf("expected %v after refusals, got %v", before, after)
	}
}

func TestSearchEndsWithItsContext(t *testing.T) {
	index := load(t, readImage(t, "BE_TREE_SLOW_IMAGE"), Options{})
	long := []byte(`{"s": "` + strings.Repeat("ab", 1<<20) + `"}`)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := index.Search(ctx, long); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("expected the deadline, got %v", err)
	}
	if _, err := index.Search(ctx, []byte(`{"s": ""}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("expected the deadline before the search, got %v", err)
	}

	cancelled, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := index.Search(cancelled, long); !errors.Is(err, context.Canceled) {
		t.Fatalf("expected a cancellation, got %v", err)
	}
	if ids := search(t, index, `{"s": "axc2byd2"}`); len(ids) != 1999 || slices.Contains(ids, 2) {
		t.Errorf("expected all ids but 2 from a new instance, got %v", ids)
	}
}

func TestSearchWithoutATimeLimitFindsTheSame(t *testing.T) {
	image := readImage(t, "BE_TREE_IMAGE")
	limited, unlimited := load(t, image, Options{}), load(t, image, Options{NoTimeLimit: true})
	for _, event := range []string{`{}`, `{"i": 1}`, `{"s": "a"}`} {
		if expected, found := search(t, limited, event), search(t, unlimited, event); !slices.Equal(expected, found) {
			t.Errorf("%s: expected %v, got %v", event, expected, found)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := unlimited.Search(ended, []byte(`{}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("expected a cancellation before the search, got %v", err)
	}
}

func TestSearchWaitsForAnInstanceUntilItsContextEnds(t *testing.T) {
	index := load(t, readImage(t, "BE_TREE_IMAGE"), Options{})
	busy := <-index.slots
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := index.Search(ctx, []byte(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected the deadline, got %v", err)
	}
	index.slots <- busy
	search(t, index, `{}`)
}

func TestSearchReplacesAnInstanceThatALateContextClosed(t *testing.T) {
	index := load(t, readImage(t, "BE_TREE_IMAGE"), Options{})
	before := search(t, index, `{}`)
	idle := <-index.slots
	idle.close()
	index.slots <- idle
	if after := search(t, index, `{}`); !slices.Equal(before, after) {
		t.Errorf("expected %v, got %v", before, after)
	}
}

func TestSearchReplacesAnInstanceAfterATrap(t *testing.T) {
	index := load(t, readImage(t, "BE_TREE_IMAGE"), Options{})
	before := search(t, index, `{}`)
	idle := <-index.slots
	idle.module.ExportedGlobal("__stack_pointer").(api.MutableGlobal).Set(0)
	index.slots <- idle
	_, err := index.Search(context.Background(), []byte(`{"i": 1}`))
	if failure := refusal(t, err); failure.Kind != Trap || errors.Unwrap(failure) == nil {
		t.Errorf("expected a trap and its cause, got %v", err)
	}
	if after := search(t, index, `{}`); !slices.Equal(before, after) {
		t.Errorf("expected %v, got %v", before, after)
	}
}

func TestSearchRunsInManyGoroutines(t *testing.T) {
	index := load(t, readImage(t, "BE_TREE_IMAGE"), Options{Instances: 3})
	events := []string{`{}`, `{"i": 1}`, `{"b": true, "i": 7}`, `{"s": "a"}`}
	expected := make([][]uint64, len(events))
	for at, event := range events {
		expected[at] = search(t, index, event)
	}
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for round := range 100 {
				at := (worker + round) % len(events)
				ids, err := index.Search(context.Background(), []byte(events[at]))
				if err != nil || !slices.Equal(ids, expected[at]) {
					t.Errorf("%s: expected %v, got %v, %v", events[at], expected[at], ids, err)
				}
			}
		}()
	}
	workers.Wait()
}

func TestSearchRefusesAnEventBeyondTheMemoryLimit(t *testing.T) {
	index := load(t, readImage(t, "BE_TREE_IMAGE"), Options{})
	before := search(t, index, `{}`)
	_, err := index.Search(context.Background(), []byte(`{"s": "`+strings.Repeat("a", 2*defaultGrowth)+`"}`))
	if failure := refusal(t, err); failure.Kind != OutOfMemory {
		t.Errorf("expected out of memory, got %v", err)
	}
	if after := search(t, index, `{}`); !slices.Equal(before, after) {
		t.Errorf("expected %v, got %v", before, after)
	}
}

func TestCloseEndsSearches(t *testing.T) {
	ctx := context.Background()
	index, err := Load(ctx, readImage(t, "BE_TREE_IMAGE"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := index.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := index.Search(ctx, []byte(`{}`)); !errors.Is(err, ErrClosed) {
		t.Errorf("expected ErrClosed, got %v", err)
	}
}

func TestDecodeErrorReadsTermsAndRefusesTheRest(t *testing.T) {
	whole := []byte("\x83\x68\x05\x77\x04type\x6d\x00\x00\x00\x02no\x6d\x00\x00\x00\x01i\x61\x07\x77\x03nil")
	expected := Error{Kind: Type, Message: "no", Attribute: "i", Column: 7}
	if failure := decodeError(whole); *failure != expected {
		t.Errorf("unexpected %#v", failure)
	}
	wide := []byte("\x83\x68\x05\x77\x04type\x6d\x00\x00\x00\x02no\x77\x03nil\x62\x00\x00\x01\x00\x77\x03nil")
	if failure := decodeError(wide); failure.Column != 256 || failure.Attribute != "" {
		t.Errorf("unexpected %#v", failure)
	}
	for length := range len(whole) - len("\x77\x03nil") {
		if failure := decodeError(whole[:length]); failure.Kind != Trap {
			t.Errorf("%d bytes: unexpected %#v", length, failure)
		}
	}
}

func ExampleIndex_Search() {
	ctx := context.Background()
	image, err := os.ReadFile("ads.wasm")
	if err != nil {
		fmt.Println("first: mix be_tree.image build --expressions betree_exprs --out ads.wasm")
		return
	}
	index, err := Load(ctx, image, Options{Instances: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer index.Close(ctx)

	limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	ids, err := index.Search(limited, []byte(`{"age": 30, "country": "CA"}`))
	fmt.Println(ids, err)
}

func BenchmarkSearch(b *testing.B) {
	index := load(b, readImage(b, "BE_TREE_IMAGE"), Options{})
	event := []byte(`{"i": 1, "s": "a"}`)
	for b.Loop() {
		if _, err := index.Search(context.Background(), event); err != nil {
			b.Fatal(err)
		}
	}
}
