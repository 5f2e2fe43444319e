package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/temporal"
	"github.com/perdure/perdure/internal/cli"
)

// diagnose checks Temporal as a scheduler with these flags and this data directory would use it.
func (o *options) diagnose(ctx context.Context, dataDir string) []cli.Check {
	c, settings, err := o.dial(nil)
	if err != nil {
		return []cli.Check{{Name: "temporal settings", Health: cli.HealthError, Detail: err.Error(),
			Fix: "correct what the message names; temporal.toml and TEMPORAL_… are those of Temporal's own command line"}}
	}
	defer c.Close()
	ctx, stop := context.WithTimeout(ctx, reachTime)
	defer stop()
	var checks []cli.Check
	for _, found := range temporal.Doctor(ctx, c, settings.Namespace, temporal.Config{Prefix: o.TemporalPrefix, Home: homeOf(dataDir), Capabilities: o.TemporalOffers}) {
		check := cli.Check{Name: found.Name, Health: cli.HealthOK, Detail: found.Detail, Fix: found.Fix}
		if !strings.HasPrefix(check.Name, "task queue") {
			check.Name = "temporal " + check.Name
		}
		switch {
		case found.OK:
		case found.NoWorker:
			check.Health = cli.HealthWarning // work waits, and nothing is wrong
		default:
			check.Health = cli.HealthError
		}
		if found.Name == "connection" {
			check.Detail = settings.HostPort + ": " + check.Detail
		}
		checks = append(checks, check)
	}
	return checks
}

// homeOf returns the id of a data directory as it is part of task queues; empty: it has none yet.
func homeOf(dataDir string) string {
	text, err := os.ReadFile(filepath.Join(dataDir, "home"))
	if err != nil {
		return ""
	}
	id, err := perdure.ParseID[perdure.HomeID](strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return string(id)
}
