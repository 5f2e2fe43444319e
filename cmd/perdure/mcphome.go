package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
)

// mcpFile is what of a data directory says which agents MCP clients may speak with, and which MCP servers agents may use.
const mcpFile = "mcp.json"

// mcpHome is what that file says.
type mcpHome struct {
	Agents  map[string]mcpAgent  `json:"agents"`
	Servers map[string]mcpServer `json:"mcpServers"`
}

// mcpAgent is an agent that is marked for MCP clients: they see it as the tool ask_NAME.
type mcpAgent struct {
	Description string `json:"description"` // what clients read
	perdure.Agent
}

// readMCPHome reads the file of a data directory. One that is not there says nothing. Invalid: what is wrong with it.
func readMCPHome(dir string) (home mcpHome, err error) {
	if dir == "" {
		return home, nil
	}
	path := filepath.Join(dir, mcpFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return home, nil
	}
	if err == nil {
		err = perdure.DecodeJSON(text, &home)
	}
	if err != nil {
		return home, fmt.Errorf("%w file %s: %w", perdure.Invalid, path, err)
	}
	return home, nil
}

// asks are the agents that MCP clients may speak with, as tools that no agent has unless it names them.
type asks []*mcpserver.Ask

// addMCP puts what the data directory of a process that writes says among the tools.
func (e *opened) addMCP(ctx context.Context, o cli.Opening, tools *tool.Registry) error {
	e.servers = &mcpServers{dir: filepath.Join(o.Dir, "mcp"), st: e.store, log: o.Log}
	e.connections = &connections{home: sync.OnceValues(func() (mcpHome, error) { return readMCPHome(o.Dir) }), servers: e.servers, failed: map[string]string{}}
	e.servers.told = e.connections.note
	if o.Access != cli.Writing {
		return nil
	}
	home, err := e.connections.home()
	if err == nil {
		err = newMCPServers(ctx, home, e.servers, tools)
	}
	if err == nil {
		e.asks, err = newAsks(home, tools)
	}
	return err
}

// newAsks makes them, in the order of their names.
func newAsks(home mcpHome, tools *tool.Registry) (made asks, err error) {
	for _, name := range slices.Sorted(maps.Keys(home.Agents)) {
		of := home.Agents[name]
		if of.Model, err = checkModel(of.Model); err != nil {
			return nil, fmt.Errorf("agent %s of %s: %w", name, mcpFile, err)
		}
		one, err := mcpserver.NewAsk(name, of.Description, of.Agent)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mcpFile, err)
		}
		tools.Offer(one)
		made = append(made, one)
	}
	return made, nil
}

// use says in which engine they speak.
func (a asks) use(eng engine.Engine) {
	for _, one := range a {
		one.Use(eng)
	}
}
