package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/config"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/settings"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool/shell"
)

// errOpened stops a command when it would open its engine.
var errOpened = errors.New("opened")

// optionsOf runs the command line up to the engine and returns how it would be opened.
func optionsOf(t *testing.T, env map[string]string, flags ...string) (o cli.OpenOptions) {
	t.Helper()
	var stderr strings.Builder
	w := Program{}.dependencies(cli.Terminal{}, redact.NewSet())
	w.Args = append(flags, "run", "--data", t.TempDir(), "--model", "scripted:none", "hello")
	w.Stdin, w.Stdout, w.Stderr = strings.NewReader(""), io.Discard, &stderr
	w.Env = func(name string) string { return env[name] }
	opened := false
	w.Open = func(_ context.Context, with cli.OpenOptions) (cli.Engine, error) {
		o, opened = with, true
		return nil, errOpened
	}
	cli.Main(t.Context(), w)
	if !opened {
		t.Fatalf("%v: %s", flags, &stderr)
	}
	return o
}

// configured is all that limits set.
type configured struct {
	Limits      config.Limits
	Timing      config.Timing
	Timekeeping local.Timekeeping
	Outbound    local.Outbound
	Billing     local.Billing
	Cleanup     local.Cleanup
	Workers     local.Workers
	Sandbox     shell.Limits
	Egress      egress.Config
	SQL         local.SQLLimits
	Retention   time.Duration
}

// configuredBy returns what the program makes of options.
func configuredBy(t *testing.T, o cli.OpenOptions) map[string]string {
	t.Helper()
	var cfg local.Config
	if err := withLimits(&cfg, o.Limits); err != nil && !strings.Contains(err.Error(), "must be at least") {
		t.Fatal(err) // one limit alone may contradict the others
	}
	c := configured{
		Limits: cfg.Limits.WithDefaults(), Timing: cfg.Timing.WithDefaults(), Timekeeping: cfg.Timekeeping,
		Outbound: cfg.Outbound, Billing: cfg.Billing, Cleanup: cfg.Cleanup, Workers: cfg.Workers,
		Sandbox: sandboxLimits(o.Limits.Sandbox), SQL: sqlLimits(o.Limits.Storage), Retention: time.Duration(o.Retention),
	}
	withEgressLimits(&c.Egress, o.Limits.Network)
	fields := map[string]string{}
	flatten(reflect.ValueOf(c), "", fields)
	return fields
}

// flatten collects the fields of a configuration that are values. What a program passes as code has
// no setting.
func flatten(v reflect.Value, path string, fields map[string]string) {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				flatten(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), fields)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Func, reflect.Pointer, reflect.Interface, reflect.Chan:
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.Interface {
			fields[path] = fmt.Sprint(v.Interface())
		}
	default:
		fields[path] = fmt.Sprint(v.Interface())
	}
}

// elsewhere are the values of the configuration that are no limit, with their setting or reason.
var elsewhere = map[string]string{
	"Workers.Transient": "follows from the command",
	"Timing.Drain":      "--stop-timeout",
	"Timing.Return":     "--stop-timeout",
	"Timing.Retention":  "Retention, which --retention sets too",
	"Workers.Shared":    "--database",
	"Billing.Model":     "models name their prices",
	"Egress.File":       "the rules of the data directory: perdure egress",
	"Egress.Listed":     "PERDURE_WEATHER_URL and PERDURE_GEOCODING_URL",

	"Egress.List.Allowed": "the rules of the data directory: perdure egress",
	"Egress.List.Blocked": "the rules of the data directory: perdure egress",
}

// otherValue returns a value of a limit that is not its default.
func otherValue(row settings.LimitRow) string {
	switch {
	case row.ByName:
		return "bash=33s"
	case row.Name == "limits.overflow":
		return "reject"
	case row.Name == "limits.result-bytes":
		return "2KiB"
	case row.Unit == "US dollars":
		return "2.5"
	}
	other := map[string]string{"": "77777", "time": "77777s", "bytes": "77777KiB"}[row.Unit]
	return cmp.Or(row.Max, other) // a largest value is no default, but that of result-bytes
}

// TestLimitsReachTheEngine: each limit changes what an engine is opened with, as a flag and as a
// variable, and no value of the configuration is without a limit.
func TestLimitsReachTheEngine(t *testing.T) {
	t.Parallel()
	before := configuredBy(t, optionsOf(t, nil))
	set := map[string]string{} // by field, the limit
	for _, row := range settings.LimitRows() {
		value := otherValue(row)
		flagged := configuredBy(t, optionsOf(t, nil, "--"+row.Name+"="+value))
		changed := 0
		for field := range flagged {
			if flagged[field] != before[field] {
				changed++
				set[field] = row.Name
			}
		}
		if changed == 0 {
			t.Errorf("--%s=%s changes nothing", row.Name, value)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(before)) {
		if set[field] == "" && elsewhere[field] == "" {
			t.Errorf("%s has no limit: add one to settings.Limits, or a reason here", field)
		}
		if set[field] != "" && elsewhere[field] != "" && field != "Timing.Retention" {
			t.Errorf("%s has a limit and a reason to have none", field)
		}
	}
}

// TestLimitVariables: a limit has a variable, which the flag overrides.
func TestLimitVariables(t *testing.T) {
	for _, row := range settings.LimitRows() {
		t.Setenv(settings.LimitVariable(row.Name), otherValue(row))
	}
	fromEnv := optionsOf(t, nil)
	var flags []string
	for _, row := range settings.LimitRows() {
		flags = append(flags, "--"+row.Name+"="+otherValue(row))
	}
	typed := optionsOf(t, nil, flags...)
	if !reflect.DeepEqual(fromEnv.Limits, typed.Limits) {
		t.Errorf("got %+v\nwant %+v", fromEnv.Limits, typed.Limits)
	}
	if fromEnv.TypedLimit != "" || typed.TypedLimit == "" {
		t.Errorf("typed: got %q and %q", fromEnv.TypedLimit, typed.TypedLimit)
	}
	if got := optionsOf(t, nil, "--limits.grace=3s").Limits.Calls.Grace; got != settings.Span(3*time.Second) {
		t.Errorf("the flag does not override the variable: %v", got)
	}
}

// TestLimitDefaults: what the limits say is their default is that of the engine.
func TestLimitDefaults(t *testing.T) {
	t.Parallel()
	got := configuredBy(t, optionsOf(t, nil))
	want := map[string]string{}
	timekeeping := local.Timekeeping{Schedules: perdure.DefaultScheduleRules(), CatchupParallel: 4}
	flatten(reflect.ValueOf(configured{
		Limits: config.DefaultLimits(), Timing: config.DefaultTiming(), Timekeeping: timekeeping,
		Outbound: local.Outbound{PerMinute: 1000}, Billing: local.Billing{Answer: 4096},
		Cleanup: local.Cleanup{Interval: 30 * time.Second, Claim: 10 * time.Minute, Attempts: 10, Page: 8},
		Workers: local.Workers{Lease: 10 * time.Second, Beat: 2 * time.Second, OrphanScan: 5 * time.Second, HomeWait: 2 * time.Minute},
		Sandbox: shell.Limits{Processes: 512, MemoryBytes: 8 << 30, OpenFiles: 1024, FileBytes: 4 << 30, CPU: time.Hour,
			DiskBytes: 16 << 30},
		Egress: egress.Config{MaxRequestBytes: egress.DefaultMaxBytes, MaxResponseBytes: egress.DefaultMaxBytes,
			Timeout: egress.DefaultTimeout, HeaderTimeout: egress.DefaultHeaderTimeout},
		SQL:       local.SQLLimits{Databases: 10, DatabaseBytes: 50 << 20, SessionBytes: 100 << 20, Timeout: 30 * time.Second},
		Retention: 30 * 24 * time.Hour,
	}), "", want)
	for field := range want {
		if got[field] != want[field] {
			t.Errorf("%s: the limit has %s, the engine %s", field, got[field], want[field])
		}
	}
}

// TestLimitsTogether: limits that contradict each other are refused by their names.
func TestLimitsTogether(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--limits.idle=2m":          "limits.idle is 2m0s, but must be at least 2 times limits.max-wait, 9m0s",
		"--limits.idle-hard-cap=2m": "limits.idle-hard-cap is 2m0s",
		"--limits.max-wait=20m":     "limits.idle is 30m0s, but must be at least 2 times limits.max-wait, 20m0s",
		"--limits.beat=5s":          "limits.lease is 10s, but must be at least 3 times limits.beat, 5s",
		"--limits.idle=none":        "",
	} {
		var cfg local.Config
		err := withLimits(&cfg, optionsOf(t, nil, flag).Limits)
		if want == "" && err != nil || want != "" && (!errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", flag, err, want)
		}
	}
}
