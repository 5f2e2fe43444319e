package app

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

// mcpFile is the file of a data directory that lists agents for MCP clients, and MCP servers for
// agents.
const mcpFile = "mcp.json"

// mcpConfig is the content of that file.
type mcpConfig struct {
	Agents  map[string]mcpAgent  `json:"agents"`
	Servers map[string]mcpServer `json:"mcpServers"`
}

// mcpAgent is an agent for MCP clients, which see it as the tool ask_NAME.
type mcpAgent struct {
	Description string `json:"description"` // for clients
	perdure.Agent
}

// readMCPConfig reads the file of a data directory. A missing file is empty. Invalid: what is wrong
// with the file.
func readMCPConfig(dir string) (home mcpConfig, err error) {
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

// agentTools are the agents for MCP clients, as tools. An agent has them only if it names them.
type agentTools []*mcpserver.Ask

// addMCP adds the MCP configuration of the data directory to the tools of a process that writes.
func (e *localEngine) addMCP(o cli.OpenOptions, tools *tool.Registry) error {
	e.servers = newMCPServers(o.Dir, e.store, o.Log)
	e.connections = &connections{home: sync.OnceValues(func() (mcpConfig, error) { return readMCPConfig(o.Dir) }),
		servers: e.servers, failed: map[string]string{}}
	e.servers.probes = e.connections.note
	if o.Access != cli.Writing {
		return nil
	}
	home, err := e.connections.home()
	if err == nil {
		err = e.servers.add(home, tools)
	}
	if err == nil {
		e.agentTools, err = newAgentTools(home, tools, func(name string) (string, error) {
			return e.models.check(context.Background(), name)
		})
	}
	return err
}

// newAgentTools creates them, sorted by name. An agent without a model uses the default model.
func newAgentTools(home mcpConfig, tools *tool.Registry, check func(model string) (string, error)) (made agentTools, err error) {
	for _, name := range slices.Sorted(maps.Keys(home.Agents)) {
		of := home.Agents[name]
		if of.Model != "" {
			if of.Model, err = check(of.Model); err != nil {
				return nil, fmt.Errorf("agent %s of %s: %w", name, mcpFile, err)
			}
		}
		if err := of.Limits.Check(); err != nil {
			return nil, fmt.Errorf("agent %s of %s: %w", name, mcpFile, err)
		}
		one, err := mcpserver.NewAsk(name, of.Description, of.Agent)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mcpFile, err)
		}
		tools.RegisterOptional(one)
		made = append(made, one)
	}
	return made, nil
}

// use sets the engine that the agents run in.
func (a agentTools) use(eng engine.Engine) {
	for _, one := range a {
		one.Use(eng)
	}
}
