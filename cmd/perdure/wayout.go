package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/web"
)

// newWayOut makes the guard that every request of a tool goes through, and the tools that make them. It obeys the rules
// that stand in the data directory; empty: there is none. An operator's own weather server is opened to the weather tools,
// wherever it is, and to nothing else (EG3).
func newWayOut(dir string, log *slog.Logger) (*egress.Guard, []tool.Tool, error) {
	cfg := egress.Config{Denied: func(e perdure.EgressError) {
		log.Warn("a request was denied", "host", e.Host, "layer", e.Layer, "rule", e.Rule, "why", e.Text)
	}}
	if dir != "" {
		cfg.File = filepath.Join(dir, egress.RulesFile)
	}
	servers := web.Config{WeatherURL: os.Getenv("PERDURE_WEATHER_URL"), GeocodingURL: os.Getenv("PERDURE_GEOCODING_URL")}
	fetching, err := web.Tools(servers)
	if err != nil {
		return nil, nil, fmt.Errorf("read PERDURE_WEATHER_URL and PERDURE_GEOCODING_URL: %w", err)
	}
	for _, typed := range []string{servers.WeatherURL, servers.GeocodingURL} {
		if u, err := url.Parse(typed); err == nil && u.Host != "" { // web.Tools has looked at it
			cfg.Listed = append(cfg.Listed, egress.Listing{Purpose: web.Purpose, Host: u.Host})
		}
	}
	guard, err := egress.New(cfg)
	return guard, fetching, err
}

func readRules(dir string) (cli.WayOutRules, error) {
	r, err := egress.ReadRules(filepath.Join(dir, egress.RulesFile))
	return cli.WayOutRules{Allowed: r.Allowed, Blocked: r.Blocked, Private: r.Private, Webhooks: r.Webhooks}, err
}

func writeRules(dir string, r cli.WayOutRules) error {
	rules := egress.Rules{Allowed: r.Allowed, Blocked: r.Blocked, Private: r.Private, Webhooks: r.Webhooks}
	if err := errors.Join(rules.Check(), sqlite.RefuseBackup(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return rules.Write(filepath.Join(dir, egress.RulesFile))
}

// tryWayOut asks a guard of its own, which obeys the same rules.
func tryWayOut(ctx context.Context, dir, url string, list perdure.NetworkList) ([]netip.AddrPort, error) {
	guard, _, err := newWayOut(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	return guard.Try(ctx, "", url, list)
}
