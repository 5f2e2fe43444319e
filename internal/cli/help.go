package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/man"
	"github.com/perdure/perdure/internal/cli/settings"
)

type helpCommand struct {
	Topic []string `arg:"" optional:"" help:"A command, a topic (configuration, effects, environment, exit-codes, formatting, limits, recovery), or the problem code of a server error."`
	Man   string   `help:"Write the man pages of all commands and topics to this folder." placeholder:"DIR" type:"path"`
}

// topics returns the help topics besides the commands.
func topics() map[string]string {
	return map[string]string{
		"exit-codes": exitCodes(), "environment": environment, "formatting": formatting, "effects": effects,
		"recovery": recovery, "configuration": configuration, "limits": limitsTopic(),
	}
}

const environment = `
PERDURE_DATA     data directory, like --data. Default: $XDG_DATA_HOME/perdure,
                 or ~/.local/share/perdure
PERDURE_DATABASE Postgres database, like --database; put a password here
                 or into PGPASSFILE, not on the command line
PERDURE_SHARED_FILES  every server reaches the files of all sessions,
                 like --shared-files
PERDURE_SERVER   server to use, like --server
PERDURE_TOKEN    token for that server
PERDURE_ADDR     address that serve listens on, like --addr
PERDURE_PUBLIC_URL  public URL of serve, like --public-url
PERDURE_SANDBOX  sandbox of commands, like --sandbox of run and serve
PERDURE_SHELL_DEADLINE  default deadline of commands
PERDURE_PROFILE  profile of the configuration files, like --profile
PERDURE_STOP_TIMEOUT  maximum time for a stop, like --stop-timeout
PERDURE_MODEL_OPTIONS  how models are asked, separated by commas, like
                 --model-option
PERDURE_LIMITS_NAME  a limit, like --limits.NAME: perdure help limits
PERDURE_TASKS_RETENTION  how long run and serve keep ended tasks, like
                 --retention
PERDURE_PRICES   file with your own model prices, which override the built-in ones
PERDURE_ANTHROPIC_PREFILL  comma-separated names of Anthropic models
                 that can continue a partial answer
PERDURE_WEATHER_URL     your own servers for get_weather and get_forecast,
PERDURE_GEOCODING_URL   with the API of Open-Meteo
OPENAI_API_KEY     API keys of the two providers; not needed for a model
ANTHROPIC_API_KEY  with its own --base-url
OTEL_EXPORTER_OTLP_ENDPOINT  where serve sends traces, like --otlp-endpoint; for the other
                 OpenTelemetry variables see docs/how-to/observe.md
XDG_CONFIG_HOME  folder of the user configuration: perdure help configuration
NO_COLOR         disables colors
CLICOLOR_FORCE   enables colors without a terminal
TERM=dumb        disables colors and cursor movement
`

// Run prints a topic, or the help of a command.
func (c *helpCommand) Run(a *app) error {
	if c.Man != "" {
		return manualWriter{a}.writeManual(c.Man)
	}
	if text, ok := topics()[strings.Join(c.Topic, " ")]; ok {
		fmt.Fprintln(a.out, strings.Trim(text, "\n"))
		return nil
	}
	if text, ok := hasPage(strings.Join(c.Topic, " ")); ok {
		fmt.Fprintln(a.out, text)
		return nil
	}
	_, err := a.kong.Parse(append(c.Topic, "--help"))
	if a.out.err != nil {
		return a.out.err
	}
	if err != nil && len(c.Topic) > 0 { // without a topic the help was printed, but kong reports a missing command
		names := slices.Sorted(maps.Keys(topics()))
		return usageError(fmt.Sprintf("there is no help topic or command %q", strings.Join(c.Topic, " ")),
			"the topics are "+strings.Join(names, ", ")+"; "+program+" --help lists the commands")
	}
	return nil
}

// writeManual writes the man pages below a folder and overwrites those of another version.
func (a manualWriter) writeManual(dir string) error {
	pages, err := a.manual()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("write the manual: %w", err)
		}
		if err := os.WriteFile(file, []byte(pages[name]), 0o644); err != nil {
			return fmt.Errorf("write the manual: %w", err)
		}
	}
	a.message("wrote %d pages to %s; read them with: man -M %s %s", len(pages), a.oneLine(dir, 300), a.oneLine(quote(dir), 300),
		program)
	return nil
}

// manual builds the man pages from a fresh grammar, so that no page depends on this machine, its
// environment or its files.
func (a manualWriter) manual() (map[string]string, error) {
	parser, err := kong.New(&commandLine{}, append(a.Program.options(), kong.Vars{"data": "~/.local/share/perdure"},
		kong.PostBuild(settings.PrepareLimits))...)
	if err != nil {
		return nil, fmt.Errorf("read the grammar: %w", err)
	}
	return man.Manual{Root: parser.Model.Node, About: about, Version: program + " " + a.Version.Version,
		Topics: topics(), Examples: Examples()}.Pages(), nil
}

// Version describes the build.
type Version struct {
	Version  string `json:"version"`            // of the module; (devel) for a build from a checkout
	Revision string `json:"revision,omitempty"` // commit of the source
	Date     string `json:"date,omitempty"`     // time of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // the source differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Modules are the paths and versions of modules that only this program has.
	Modules []string `json:"modules,omitempty"`
}

// String returns the version on one line.
func (v Version) String() string {
	text := program + " " + v.Version
	if v.Revision != "" {
		text += " (" + clip(v.Revision, 13)
		if day, _, dated := strings.Cut(v.Date, "T"); dated {
			text += ", " + day
		}
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	text += ", " + v.Go + ", " + v.Platform
	for _, m := range v.Modules {
		text += "\n" + m
	}
	return text
}

type versionCommand struct{ outputFlags }

// Run prints the version.
func (c *versionCommand) Run(ctx context.Context, a *app) error {
	return c.show(ctx, a, outputObject{a.Version.Version, a.Version, func() { fmt.Fprintln(a.out, a.Version) }})
}
