package app

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
	"github.com/perdure/perdure/internal/cli/settings"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool/web"
)

// newEgress creates the guard of all requests of tools, and returns the servers of the weather
// tools. It applies the rules of the data directory; empty: there are none. A weather server of the
// operator is allowed for the weather tools, even with a private address, and for nothing else.
func newEgress(dir string, limits settings.NetworkLimits, log *slog.Logger) (*egress.Guard, web.Config, error) {
	cfg := egress.Config{OnDenied: func(e perdure.EgressError) {
		log.Warn("request denied", "host", e.Host, "layer", e.Layer, "rule", e.Rule, "why", e.Text)
	}}
	withEgressLimits(&cfg, limits)
	if dir != "" {
		cfg.File = filepath.Join(dir, egress.RulesFile)
	}
	servers := web.Config{WeatherURL: os.Getenv("PERDURE_WEATHER_URL"),
		GeocodingURL: os.Getenv("PERDURE_GEOCODING_URL")}
	if _, err := web.Tools(servers); err != nil {
		return nil, servers, fmt.Errorf("read PERDURE_WEATHER_URL and PERDURE_GEOCODING_URL: %w", err)
	}
	for _, typed := range []string{servers.WeatherURL, servers.GeocodingURL} {
		if u, err := url.Parse(typed); err == nil && u.Host != "" { // web.Tools has validated it
			cfg.Listed = append(cfg.Listed, egress.Listing{Purpose: web.Purpose, Host: u.Host})
		}
	}
	guard, err := egress.New(cfg)
	return guard, servers, err
}

func readRules(dir string) (cli.EgressConfig, error) {
	r, err := egress.ReadRules(filepath.Join(dir, egress.RulesFile))
	return cli.EgressConfig{Allowed: r.Allowed, Blocked: r.Blocked, Private: r.Private, Webhooks: r.Webhooks}, err
}

func writeRules(dir string, r cli.EgressConfig) error {
	rules := egress.Rules{Allowed: r.Allowed, Blocked: r.Blocked, Private: r.Private, Webhooks: r.Webhooks}
	if err := errors.Join(rules.Check(), sqlite.RefuseBackup(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return rules.Write(filepath.Join(dir, egress.RulesFile))
}

// testEgress uses a separate guard with the same rules.
func testEgress(ctx context.Context, dir, url string, list perdure.NetworkList) ([]netip.AddrPort, error) {
	guard, _, err := newEgress(dir, settings.NetworkLimits{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	return guard.Resolve(ctx, "", url, list)
}
