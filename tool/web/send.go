package web

import (
	"context"
	"errors"
	"net"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// send sends a request of the tool of a name through the session's one way out. host is what the model reads
// in an error; empty: the host that the guard names.
func send(ctx context.Context, env tool.Env, name, host string, req perdure.WebRequest) (perdure.WebResponse, error) {
	if env.Egress == nil {
		return perdure.WebResponse{}, tool.Errorf("%s", tool.Missing("Egress service", name+" requires a way out to the network.").Text)
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

// explain turns an error of the guard into one for the model. The guard's own text is kept only where it
// speaks of what was asked: elsewhere it may name addresses.
func explain(err *perdure.EgressError, host string) error {
	switch err.Code {
	case perdure.EgressDenied:
		return tool.Errorf("URL not allowed by network policy: %s", host)
	case perdure.EgressInvalid:
		return tool.Errorf("Invalid URL: %s", clean(err.Text))
	}
	var slow interface{ Timeout() bool }
	var name *net.DNSError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return tool.Errorf("Could not reach %s: there is no host of that name.", host)
	case errors.As(err, &slow) && slow.Timeout():
		return tool.Errorf("Could not reach %s: it did not answer in time. Try again later.", host)
	}
	return tool.Errorf("Could not reach %s: the connection failed or took too long. Try again later.", host)
}
