package cli

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/settings"
)

type configCommand struct {
	List   configList   `cmd:"" help:"List what is set, by the environment and by files."`
	Check  configCheck  `cmd:"" help:"Say what is wrong with the configuration files."`
	Schema configSchema `cmd:"" help:"Print what may be set, as a JSON schema."`
}

// configured is what the files say.
type configured struct {
	files  settings.Files
	count  map[string]settings.Setting // what counts, by its keys
	faults []settings.Fault
}

// configure reads what the files say; parse makes it the defaults of the flags (C12).
func (a *app) configure() configured {
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
	c := configured{files: settings.Find(folder, config)}
	profile := a.Env("PERDURE_PROFILE")
	for i, arg := range a.Args { // before the line is read: a profile says what flags are that are not typed
		if name, value, given := strings.Cut(arg, "="); name == "--profile" && given {
			profile = value
		} else if name == "--profile" && i+1 < len(a.Args) {
			profile = a.Args[i+1]
		} else if arg == "--" {
			break
		}
	}
	c.count, c.faults = settings.Load(c.files, profile)
	return c
}

// nearest is the name that was meant; empty: none is near.
func nearest(typed string, names []string) string {
	best, distance := "", 4
	for _, name := range names {
		if d := editDistance(name, typed); d < min(distance, len(typed)) {
			best, distance = name, d
		}
	}
	return best
}

// obeyed refuses a command whose settings cannot be obeyed. Those that help to mend them are not refused.
func (c configured) obeyed(parsed *kong.Context) error {
	if len(c.faults) == 0 || helps(parsed) {
		return nil
	}
	first := c.faults[0]
	return misuse(first.Error(), strings.TrimPrefix(first.Todo+"\n"+program+" config check  lists all that is wrong", "\n"))
}

// helps reports whether a command helps to mend what is set, or needs none of it.
func helps(parsed *kong.Context) bool {
	if parsed.Selected() == nil {
		return true
	}
	noun, _, _ := strings.Cut(parsed.Command(), " ")
	return slices.Contains([]string{"config", "help", "version", "completion", "__complete", "doctor"}, noun)
}

// configured setting, for people and programs.
type setRow struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // a variable, FILE:LINE, or default
}

type configList struct {
	ShowOrigin bool `help:"Also say where each stands."`
	All        bool `help:"Also what nobody has set."`
	output
}

// Run lists settings.
func (c *configList) Run(ctx context.Context, a *app) error {
	keys := settings.Keys(a.kong.Model.Node)
	var rows []setRow
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if row := a.setting(keys[name]); row.Origin != "default" || c.All {
			rows = append(rows, row)
		}
	}
	return listing[setRow]{
		noun: "settings: everything is as the program has it",
		name: func(r setRow) string { return r.Key },
		tell: func(rows []setRow) {
			for _, r := range rows {
				text := a.line(r.Value, 200)
				if c.ShowOrigin {
					text += "   " + a.paint.data.in(dim, a.line(r.Origin, 300))
				}
				fmt.Fprintf(a.out, "%s  %s\n", a.paint.data.in(bold, fmt.Sprintf("%-24s", r.Key)), text)
			}
		},
	}.print(ctx, a, c.output, rows)
}

// setting says what a flag is when it is not typed, and who says so. A password is not shown.
func (a *app) setting(key settings.Key) setRow {
	row := setRow{Key: key.Name, Value: key.Flag.Default, Origin: "default"}
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

type configCheck struct{ output }

// Run says what is wrong, or which files were read.
func (c *configCheck) Run(ctx context.Context, a *app) error {
	for _, path := range []string{a.settings.files.Project, a.settings.files.User} {
		if path != "" {
			a.say("read %s", a.line(path, 300))
		}
	}
	err := listing[settings.Fault]{
		noun: "faults",
		name: func(f settings.Fault) string { return f.Origin },
		tell: func(all []settings.Fault) {
			for _, f := range all {
				fmt.Fprintln(a.out, a.text(f.Error()))
				if f.Todo != "" {
					fmt.Fprintln(a.out, "  "+a.text(f.Todo))
				}
			}
		},
	}.print(ctx, a, c.output, a.settings.faults)
	if err == nil && len(a.settings.faults) > 0 {
		err = misuse(count(len(a.settings.faults), "fault")+" in the configuration", program+" config schema  lists what may be set")
	}
	return err
}

type configSchema struct{ output }

// Run prints the schema.
func (c *configSchema) Run(ctx context.Context, a *app) error {
	schema := settings.Schema(a.kong.Model.Node)
	return c.show(ctx, a, shown{"config.schema.json", schema, func() { _ = a.json(schema, "  ") }}) // the sink keeps its error
}
