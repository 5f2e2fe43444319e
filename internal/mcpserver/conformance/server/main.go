// Command server is the target of the MCP conformance suite: Perdure's MCP server over a real
// store, with the fixture tools that the suite requires.
//
// It may import anything. The one thing to know: the tools with tasks run through the engine like
// any other; everything else that the suite requires of the protocol core is added directly to the
// SDK server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "the address to listen on; the actual address is printed")
	dir := flag.String("dir", "", "the data directory; empty: a temporary one")
	debug := flag.Bool("debug", false, "write a debug log to stderr")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *dir, *debug); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, dir string, debug bool) error {
	log := slog.New(slog.DiscardHandler)
	if debug {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if dir == "" {
		made, err := os.MkdirTemp("", "perdure-mcp-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		dir = made
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer st.Close()
	eng, err := local.Open(ctx, local.Config{Store: st, Model: none{}, Tools: tool.NewRegistry(fixtures()...), Log: log})
	if err != nil {
		return err
	}
	server, err := mcpserver.New(ctx, mcpserver.Config{
		Engine: eng, Tools: marked(), Local: &mcpserver.Principal{ID: "conformance"}, Name: "perdure-conformance", Log: log, ExtendSDK: core, Complete: complete, SoftBudget: 20 * time.Second,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1) // of the engine's one Run
	go func() { ended <- eng.Run(work) }()
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	go func() {
		<-ctx.Done()
		_ = web.Close() // pending requests are aborted
	}()
	err = web.Serve(listener)
	end()
	if failed := <-ended; failed != nil {
		return failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// none is a model that answers no request.
type none struct{}

// Stream fails with Unavailable.
func (none) Stream(context.Context, model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		yield(model.Delta{}, &model.Error{Code: model.Unavailable, Text: "this server has no model"})
	}
}
