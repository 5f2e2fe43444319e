package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// taskIDs is the tasks that a client listens to.
func taskIDs(params *mcp.SubscriptionsListenParams) (ids []string) {
	if params == nil {
		return nil
	}
	list, _ := params.Meta[metaTask].([]any)
	for _, v := range list {
		if id, ok := v.(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *Server) listen(context.Context, peer, *mcp.SubscriptionsListenRequest, []string) (mcp.Result, error) {
	return nil, nil
}
