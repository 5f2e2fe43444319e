package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/cli"
)

// mcpDoctorTime is how long doctor waits for all MCP servers, which it asks side by side.
const mcpDoctorTime = 10 * time.Second

// checkMCP asks each MCP server of a data directory for its tools.
func checkMCP(ctx context.Context, dir string) []cli.Check {
	home, err := readMCPConfig(dir)
	if err != nil {
		return []cli.Check{{Name: mcpFile, Health: cli.HealthError, Detail: err.Error(), Fix: "correct the file"}}
	}
	names := slices.Sorted(maps.Keys(home.Servers))
	checks := make([]cli.Check, len(names))
	s := newMCPServers(dir, nil, slog.New(slog.DiscardHandler))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { checks[i] = s.check(ctx, name, home.Servers[name]) })
	}
	group.Wait()
	return checks
}

// check asks one server.
func (s *mcpServers) check(ctx context.Context, name string, of mcpServer) cli.Check {
	limit := min(of.startup(), mcpDoctorTime)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	check := cli.Check{Name: "MCP server " + name, Health: cli.HealthOK}
	err := of.check(name)
	if err != nil {
		check.Health, check.Detail, check.Fix = cli.HealthError, err.Error(), "correct its entry in "+mcpFile
		return check
	}
	said, _ := s.known(name, of)
	said, err = s.probe(ctx, name, of, probeOptions{Era: said.ProtocolVersion})
	if err == nil {
		check.Detail = fmt.Sprintf("answers; %d tools", len(said.Tools))
		return check
	}
	check.Health, check.Detail = cli.HealthWarning, "its tools are missing: "+of.masked(err.Error())
	check.Fix = "correct its entry in " + mcpFile + ", or the server; perdure mcp test --name " + name + " tries it again"
	if ctx.Err() != nil {
		check.Detail = fmt.Sprintf("its tools are missing: it did not answer within %s", limit)
		check.Fix = fmt.Sprintf("perdure mcp test --name %s waits %s for it; startup_timeout in %s allows more", name, of.startup(), mcpFile)
	}
	if of.URL == "" {
		check.Fix += "; its own messages are in " + filepath.Join(s.dir, "servers.log")
	}
	return check
}
