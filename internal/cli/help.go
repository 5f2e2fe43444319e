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
)

type helpCommand struct {
	Topic []string `arg:"" optional:"" help:"A command, a topic (configuration, effects, environment, exit-codes, formatting, recovery), or the code of a problem that a server answered."`
	Man   string   `help:"Write the manual, a page for man(1) of each command and topic, into this folder." placeholder:"DIR" type:"path"`
}

// topics returns what help tells besides the commands.
func topics() map[string]string {
	return map[string]string{
		"exit-codes": exitCodes(), "environment": environment, "formatting": formatting, "effects": effects, "recovery": recovery, "configuration": configuration,
	}
}

const environment = `
PERDURE_DATA     the data directory, as --data. Without it: $XDG_DATA_HOME/perdure,
                 or ~/.local/share/perdure
PERDURE_DATABASE a Postgres database, as --database; a password belongs here
                 or into PGPASSFILE, and not on a command line
PERDURE_SERVER   a server to ask instead, as --server
PERDURE_TOKEN    the token of that server
PERDURE_ADDR     where serve listens, as --addr
PERDURE_PUBLIC_URL  where clients find what serve serves, as --public-url
PERDURE_SANDBOX  what commands may do, as --sandbox of run and serve
PERDURE_SHELL_DEADLINE  after how long a command is ended whose call names no time
PERDURE_PROFILE  the profile of the configuration files, as --profile
PERDURE_STOP_TIMEOUT  how long a stop may take, as --stop-timeout
PERDURE_TASKS_RETENTION  how long run and serve keep tasks that have ended, as
                 --retention
PERDURE_PRICES   a file with prices of your own, over those of the program
PERDURE_ANTHROPIC_PREFILL  models of Anthropic, with commas between their names,
                 that may go on from the beginning of an answer which broke off
PERDURE_WEATHER_URL     servers of your own for get_weather and get_forecast, which
PERDURE_GEOCODING_URL   speak the protocol of Open-Meteo
OPENAI_API_KEY     the keys of the two providers; a model that names a server of
ANTHROPIC_API_KEY  its own needs none
OTEL_EXPORTER_OTLP_ENDPOINT  where serve sends spans, as --otlp-endpoint; the other
                 variables of OpenTelemetry are in docs/how-to/observe.md
XDG_CONFIG_HOME  where the configuration of the user is: perdure help configuration
NO_COLOR         no colours
CLICOLOR_FORCE   colours also where there is no terminal
TERM=dumb        no colours, and the cursor never moves
`

// Run prints a topic, or the help of a command.
func (c *helpCommand) Run(a *app) error {
	if c.Man != "" {
		return a.writeManual(c.Man)
	}
	if text, ok := topics()[strings.Join(c.Topic, " ")]; ok {
		fmt.Fprintln(a.out, strings.Trim(text, "\n"))
		return nil
	}
	if text, ok := explains(strings.Join(c.Topic, " ")); ok {
		fmt.Fprintln(a.out, text)
		return nil
	}
	_, err := a.kong.Parse(append(c.Topic, "--help"))
	if a.out.err != nil {
		return a.out.err
	}
	if err != nil && len(c.Topic) > 0 { // without one the help is printed, and no command is found
		names := slices.Sorted(maps.Keys(topics()))
		return misuse(fmt.Sprintf("there is no help on %q", strings.Join(c.Topic, " ")),
			"the topics are "+strings.Join(names, ", ")+"; "+program+" --help lists the commands")
	}
	return nil
}

// writeManual writes the pages for man(1) below a folder, over those of another version (C15).
func (a *app) writeManual(dir string) error {
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
	a.say("%d pages are in %s; man -M %s %s shows the first", len(pages), a.line(dir, 300), a.line(quote(dir), 300), program)
	return nil
}

// manual is made from a grammar of its own: what this machine, its environment and its files say stands in no page.
func (a *app) manual() (map[string]string, error) {
	parser, err := kong.New(&commandLine{}, kong.Name(program), kong.Vars{"data": "~/.local/share/perdure"})
	if err != nil {
		return nil, fmt.Errorf("read the grammar: %w", err)
	}
	return man.Book{Root: parser.Model.Node, About: about, Version: program + " " + a.Version.Version, Topics: topics()}.Pages(), nil
}

// Version says what was built.
type Version struct {
	Version  string `json:"version"`            // of the module; (devel) when it was built from a checkout
	Revision string `json:"revision,omitempty"` // of the source
	Modified bool   `json:"modified,omitempty"` // the source differed from its revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String writes the version in a line.
func (v Version) String() string {
	text := program + " " + v.Version
	if v.Revision != "" {
		text += " (" + clip(v.Revision, 13)
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + ", " + v.Go + ", " + v.Platform
}

type versionCommand struct{ output }

// Run prints the version.
func (c *versionCommand) Run(ctx context.Context, a *app) error {
	return c.show(ctx, a, shown{a.Version.Version, a.Version, func() { fmt.Fprintln(a.out, a.Version) }})
}
