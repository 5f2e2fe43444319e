package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/settings"
)

type configCommand struct {
	List   configList   `cmd:"" aliases:"ls" help:"List the settings of the environment and of files. With --show-origin, each limit also with its default and meaning."`
	Check  configCheck  `cmd:"" help:"Check the configuration files."`
	Schema configSchema `cmd:"" help:"Print a JSON schema of all settings."`
}

// settingsState is the content of the configuration files.
type settingsState struct {
	files    settings.Files
	count    map[string]settings.Setting // the effective settings, by key
	problems []settings.Problem
}

// configure reads the configuration files; parse makes their values the defaults of the flags.
func (a *app) configure() settingsState {
	folder, err := os.Getwd()
	if err != nil {
		folder = "" // it was removed: there is no project here
	}
	config := a.Env("XDG_CONFIG_HOME")
	if home := a.Env("HOME"); !filepath.IsAbs(config) {
		if config = ""; filepath.IsAbs(home) {
			config = filepath.Join(home, ".config")
		}
	}
	c := settingsState{files: settings.Find(folder, config)}
	profile := a.Env("PERDURE_PROFILE")
	for i, arg := range a.Args { // the profile is needed before parsing, since it sets defaults of flags
		if name, value, given := strings.Cut(arg, "="); name == "--profile" && given {
			profile = value
		} else if name == "--profile" && i+1 < len(a.Args) {
			profile = a.Args[i+1]
		} else if arg == "--" {
			break
		}
	}
	c.count, c.problems = settings.Load(c.files, profile)
	return c
}

// keepNearest returns the most similar name; empty: none is similar.
func keepNearest(typed string, names []string) string {
	best, distance := "", 4
	for _, name := range names {
		if d := editDistance(name, typed); d < min(distance, len(typed)) {
			best, distance = name, d
		}
	}
	return best
}

// check refuses a command with invalid settings, except for commands that help to correct them.
func (c settingsState) check(parsed *kong.Context) error {
	if len(c.problems) == 0 || worksWithBrokenConfig(parsed) {
		return nil
	}
	first := c.problems[0]
	return usageError(first.Error(), strings.TrimPrefix(first.Hint+"\n"+program+" config check  lists all errors", "\n"))
}

// worksWithBrokenConfig reports whether a command helps to correct the settings, or needs none.
func worksWithBrokenConfig(parsed *kong.Context) bool {
	if parsed.Selected() == nil {
		return true
	}
	noun, _, _ := strings.Cut(parsed.Command(), " ")
	return slices.Contains([]string{"config", "help", "version", "completion", "__complete", "doctor"}, noun)
}

// setRow is one line of config list.
type setRow struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // a variable, FILE:LINE, or default
	// Default, Unit and Allowed are set for limits.
	Default string `json:"default,omitempty"`
	Unit    string `json:"unit,omitempty"`
	Allowed string `json:"allowed,omitempty"`
	Meaning string `json:"meaning"`
}

type configList struct {
	ShowOrigin bool `help:"Also print where each setting comes from."`
	All        bool `help:"Also list settings with their default value."`
	outputFlags
}

// Run lists settings.
func (c *configList) Run(ctx context.Context, a *app) error {
	keys := settings.Keys(a.kong.Model.Node)
	a.settings.count = settings.JoinNamed(a.settings.count, keys)
	var rows []setRow
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if row := a.setting(keys[name]); row.Origin != "default" || c.All {
			rows = append(rows, row)
		}
	}
	if c.ShowOrigin {
		rows = append(rows, storedRows(ctx, a)...)
	}
	return outputList[setRow]{
		noun: "settings: all values are defaults",
		name: func(r setRow) string { return r.Key },
		tell: func(rows []setRow) {
			for _, r := range rows {
				text := a.oneLine(r.Value, 200)
				if c.ShowOrigin {
					text += "   " + a.colors.stdout.in(dim, a.oneLine(r.Origin, 300))
					if r.Default != "" {
						text += "   " + a.colors.stdout.in(dim, "(default "+r.Default+") "+r.Meaning)
					}
				}
				fmt.Fprintf(a.out, "%s  %s\n", a.colors.stdout.in(bold, fmt.Sprintf("%-24s", r.Key)), text)
			}
		},
	}.print(ctx, a, c.outputFlags, rows)
}

// storedTime limits the time for what the store adds to the settings.
const storedTime = 5 * time.Second

// storedRows describes the keys of the model providers, and the default model: which of the
// environment and the store is used. Nothing is added when there is no store, or when it cannot be
// read now.
func storedRows(ctx context.Context, a *app) (rows []setRow) {
	ctx, cancel := context.WithTimeout(ctx, storedTime)
	defer cancel()
	err := a.read(ctx, func(eng Engine) error {
		all, err := eng.Providers().List(ctx)
		if err != nil {
			return err
		}
		for _, p := range all {
			row := setRow{Key: "provider." + p.Name + ".key", Value: "set", Origin: "store"}
			if p.Source == engine.ProviderFromEnvironment {
				row.Origin = "$" + p.Variable
			} else if !p.HasKey {
				continue
			}
			rows = append(rows, row)
		}
		found, err := eng.Providers().DefaultModel(ctx)
		if err == nil && found.Name != "" {
			rows = append(rows, setRow{Key: "default model", Value: found.Name, Origin: "store, " + found.Source})
		}
		return err
	})
	if err != nil {
		a.log.Debug("the store adds nothing to the settings", "error", err)
	}
	return rows
}

// setting returns the default of a flag and its origin. A password is masked.
func (a *app) setting(key settings.Key) setRow {
	row := setRow{Key: key.Name, Value: key.Flag.Default, Origin: "default", Meaning: key.Flag.Help}
	if settings.IsLimit(key.Flag) {
		bounds := settings.BoundsOf(key.Flag.Target.Type(), key.Flag.Tag.Get)
		row.Default, row.Unit, row.Allowed = bounds.Default, bounds.Unit, bounds.Allowed()
		row.Value = cmp.Or(row.Value, bounds.Default)
	}
	if s, ok := a.settings.count[key.Name]; ok {
		row.Value, row.Origin = strings.Join(s.Values, ","), s.Origin()
	}
	for _, env := range key.Envs {
		if value := a.Env(env); value != "" {
			row.Value, row.Origin = value, "$"+env
			break
		}
	}
	if u, err := url.Parse(row.Value); err == nil && u.User != nil {
		row.Value = u.Redacted()
	}
	return row
}

type configCheck struct{ outputFlags }

// Run prints the errors, or the files that were read.
func (c *configCheck) Run(ctx context.Context, a *app) error {
	for _, path := range []string{a.settings.files.Project, a.settings.files.User} {
		if path != "" {
			a.message("read %s", a.oneLine(path, 300))
		}
	}
	err := outputList[settings.Problem]{
		noun: "errors",
		name: func(f settings.Problem) string { return f.Origin },
		tell: func(all []settings.Problem) {
			for _, f := range all {
				fmt.Fprintln(a.out, a.text(f.Error()))
				if f.Hint != "" {
					fmt.Fprintln(a.out, "  "+a.text(f.Hint))
				}
			}
		},
	}.print(ctx, a, c.outputFlags, a.settings.problems)
	if err == nil && len(a.settings.problems) > 0 {
		err = usageError(count(len(a.settings.problems), "error")+" in the configuration",
			program+" config schema  lists all settings")
	}
	return err
}

type configSchema struct{ outputFlags }

// Run prints the schema.
func (c *configSchema) Run(ctx context.Context, a *app) error {
	schema := settings.Schema(a.kong.Model.Node)
	// a.out keeps the error
	return c.show(ctx, a, outputObject{"config.schema.json", schema, func() { _ = a.json(schema, "  ") }})
}
