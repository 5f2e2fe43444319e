package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/raw"
	"github.com/perdure/perdure/internal/egress"
)

// connect returns the client of perdure api: for the given server, or for the holder of the data
// directory.
func connect(ctx context.Context, o cli.OpenOptions) (raw.Client, error) {
	way, err := clientFor(ctx, o.Dir, o.Server)
	if err != nil {
		return way, err
	}
	cfg, _ := serverFor(o)
	eng, err := remote.New(cfg)
	if err != nil {
		return way, fmt.Errorf("connect to the server: %w", err)
	}
	defer eng.Close()
	err = checkStores(ctx, o, eng)
	var refused interface{ Unauthorized() bool }
	// the request is refused as well, and its response is what the user wants to see
	if errors.As(err, &refused) && refused.Unauthorized() {
		err = nil
	}
	return way, err
}

// clientFor returns how to send requests to a server.
func clientFor(ctx context.Context, dir, server string) (raw.Client, error) {
	path, isSocket := strings.CutPrefix(server, "unix://")
	if server != "" && !isSocket {
		client, err := egress.ForURL(server)
		if err != nil {
			return raw.Client{}, fmt.Errorf("connect to the server: %w", err)
		}
		return raw.Client{Base: strings.TrimRight(server, "/"), Token: os.Getenv("PERDURE_TOKEN"), HTTP: client}, nil
	}
	if server == "" {
		path = filepath.Join(dir, socketFile)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return raw.Client{}, fmt.Errorf("%w: no process holds the data directory", perdure.NotFound)
		}
		conn, err := egress.DialSocket(ctx, path)
		if err != nil { // the socket of a process that has crashed
			return raw.Client{}, fmt.Errorf("%w: no process holds the data directory: %w", perdure.NotFound, err)
		}
		if err := conn.Close(); err != nil {
			return raw.Client{}, fmt.Errorf("%w: connect to the server of the data directory: %w", perdure.Unavailable,
				err)
		}
	}
	return raw.Client{Base: "http://localhost", Actor: "operator", HTTP: egress.Socket(path)}, nil
}
