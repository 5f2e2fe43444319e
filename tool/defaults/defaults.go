// Package defaults puts the sets of tools together, as the perdure command has them.
//
// It may import tool and its sets, except those that run commands or connect to servers. The one
// thing to know: the command uses this package too, so a program that embeds the engine has the
// same tools in the same order.
package defaults

import (
	"slices"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/schedule"
	"github.com/perdure/perdure/tool/session"
	"github.com/perdure/perdure/tool/subagent"
	"github.com/perdure/perdure/tool/web"
)

// Config configures the tools. The zero value is complete.
type Config struct {
	Web        web.Config        // the servers of the weather tools
	Background background.Config // the limits of waits for background work
}

// Tools returns the default tools, which every session has unless its agent chooses: time, echo,
// progress, arithmetic, todos, the files of the session, weather and web pages (TL27). They are in
// the order in which models see them. Invalid: a URL of the configuration is not valid.
func Tools(cfg Config) ([]tool.Tool, error) {
	fetching, err := web.Tools(cfg.Web)
	if err != nil {
		return nil, err
	}
	return slices.Concat(core.Tools(), file.Tools(), fetching), nil
}

// Background returns the tools that start, watch and cancel background runs. A session sees them
// only if another of its tools can run in the background (TL33).
func Background(cfg Config) []tool.Tool { return background.Tools(cfg.Background) }

// Optional returns the tools that a session has only if its agent chooses their capability or names
// them: they start agents, make schedules, or store values, secrets, images and databases (TL30).
func Optional() []tool.Tool {
	return slices.Concat(subagent.Tools(), schedule.Tools(), session.StorageTools(), session.SQLTools(),
		[]tool.Tool{session.ListResources(), session.CheckBudget(), session.SearchMessages(), session.ViewImage(),
			session.SetTitle()})
}

// Registry returns a registry with all of them, and load_tool, which returns deferred schemas to
// the model. It has no tool that runs commands: register those of tool/shell if agents may use
// them. Invalid: as [Tools].
func Registry(cfg Config) (*tool.Registry, error) {
	tools, err := Tools(cfg)
	if err != nil {
		return nil, err
	}
	r := tool.NewRegistry(slices.Concat(tools, Background(cfg), []tool.Tool{core.LoadTool()})...)
	r.RegisterOptional(Optional()...)
	return r, r.Err()
}
