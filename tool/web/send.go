package web

import (
	"context"
	"errors"
	"net"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// send sends a request of the named tool through the session's egress port. host is shown to the
// model in errors; empty: the host named by the egress guard.
func send(ctx context.Context, env tool.Env, name, host string, req perdure.WebRequest) (perdure.WebResponse, error) {
	if env.Egress == nil {
		return perdure.WebResponse{}, tool.Errorf("%s", tool.Missing("Egress service", name+" requires access to the network.").Text)
	}
	req.Kind = perdure.EgressCapability
	req.List = env.Network
	resp, err := env.Egress.Do(ctx, req)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return perdure.WebResponse{}, context.Cause(ctx)
	}
	var refused *perdure.EgressError
	if !errors.As(err, &refused) {
		return perdure.WebResponse{}, err
	}
	if host == "" {
		host = clean(refused.Host)
	}
	return perdure.WebResponse{}, explain(refused, host)
}

// explain converts an error of the egress guard to one for the model. The guard's own text is kept
// only for an invalid URL, because other texts may contain internal addresses.
func explain(err *perdure.EgressError, host string) error {
	switch {
	case err.Rule == perdure.RuleSecret:
		return tool.Errorf("The request was not sent: %s", clean(err.Text))
	case err.Code == perdure.EgressDenied:
		return tool.Errorf("URL not allowed by network policy: %s", host)
	case err.Code == perdure.EgressInvalid:
		return tool.Errorf("Invalid URL: %s", clean(err.Text))
	}
	var slow interface{ Timeout() bool }
	var name *net.DNSError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return tool.Errorf("Could not reach %s: the host does not exist.", host)
	case errors.As(err, &slow) && slow.Timeout():
		return tool.Errorf("Could not reach %s: it did not answer in time. Try again later.", host)
	}
	return tool.Errorf("Could not reach %s: the connection failed or took too long. Try again later.", host)
}
