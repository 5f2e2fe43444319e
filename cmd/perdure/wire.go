package main

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

// reach finds the server that perdure api speaks with: the one that was named, or whoever holds the data directory.
func reach(ctx context.Context, o cli.Opening) (raw.Way, error) {
	way, err := wayTo(ctx, o.Dir, o.Server)
	if err != nil {
		return way, err
	}
	cfg, _ := whom(o)
	eng, err := remote.New(cfg)
	if err != nil {
		return way, fmt.Errorf("reach the server: %w", err)
	}
	defer eng.Close()
	err = checkPlace(ctx, o, eng)
	var refused interface{ Unauthorized() bool }
	if errors.As(err, &refused) && refused.Unauthorized() { // so is the request, and its answer is what was asked for
		err = nil
	}
	return way, err
}

// wayTo is how requests come to a server.
func wayTo(ctx context.Context, dir, server string) (raw.Way, error) {
	path, isSocket := strings.CutPrefix(server, "unix://")
	if server != "" && !isSocket {
		client, err := egress.ForURL(server)
		if err != nil {
			return raw.Way{}, fmt.Errorf("reach the server: %w", err)
		}
		return raw.Way{Base: strings.TrimRight(server, "/"), Token: os.Getenv("PERDURE_TOKEN"), HTTP: client}, nil
	}
	if server == "" {
		path = filepath.Join(dir, socketFile)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return raw.Way{}, fmt.Errorf("%w: nobody holds the data directory", perdure.NotFound)
		}
		conn, err := egress.DialSocket(ctx, path)
		if err != nil { // it was left behind by a process that died
			return raw.Way{}, fmt.Errorf("%w: nobody holds the data directory: %w", perdure.NotFound, err)
		}
		if err := conn.Close(); err != nil {
			return raw.Way{}, fmt.Errorf("%w: reach whoever holds the data directory: %w", perdure.Unavailable, err)
		}
	}
	return raw.Way{Base: "http://localhost", Actor: "operator", HTTP: egress.Socket(path)}, nil
}
