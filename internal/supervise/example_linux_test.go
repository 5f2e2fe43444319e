package supervise_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/internal/supervise"
)

// The first line of main, or of TestMain as in this package, is supervise.Entry(). A command then
// goes through three steps; between the first two the caller commits its claim.
func ExampleLocal() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "runs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	l, err := supervise.New(supervise.Config{})
	if err != nil {
		panic(err)
	}

	dir := filepath.Join(root, "call-7-attempt-1")
	if err := l.Prepare(ctx, dir); err != nil {
		panic(err)
	}
	run, err := l.Start(ctx, dir, supervise.Command{Argv: []string{"/bin/sh", "-c", "echo hello; exit 3"}, Dir: root})
	if err != nil {
		panic(err)
	}
	exit, err := run.Follow(ctx, 0, func(c supervise.Chunk) error {
		fmt.Printf("%s at %d: %s", c.Stream, c.Offset, c.Bytes)
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("exit", exit.Code)
	// Output:
	// stdout at 0: hello
	// exit 3
}
