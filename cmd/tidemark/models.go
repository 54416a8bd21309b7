package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/render"
)

// providerUsage describes --provider.
func providerUsage() string {
	return strings.Join(model.Providers, ", ") + "; openai is also what speaks like it"
}

func modelsCommand(a *app) *cobra.Command {
	var choice agent.Choice
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models that an endpoint has",
		Long: `Asks an endpoint which models it has, and says how many tokens each can be sent:
as the endpoint tells (Ollama, llama.cpp, vLLM, OpenRouter, Anthropic), by the
table of families of models, or by default where nobody knows. A conversation
is made shorter before it is longer than that.

Ollama tells what is set for a model, or what it was loaded with; it cuts off what
is longer without a word. The endpoint is chosen as in tidemark chat.`,
		Example: "  tidemark models --provider ollama\n  tidemark models --provider vllm --base-url http://gpu.example.org:8000/v1\n  tidemark models --provider openrouter --json=name,window",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			provider, all, err := a.setup(a.config).Offers(cmd.Context(), choice)
			if err != nil {
				return err
			}
			t := a.table("NAME", "TOKENS", "BY")
			for _, o := range all {
				t.Row(render.CleanLine(o.Name), fmt.Sprint(o.Window), o.From)
			}
			if len(all) == 0 {
				a.say("%s has no models.", provider)
			}
			return a.print(all, t.Print)
		},
	}
	cmd.Flags().StringVar(&choice.Provider, "provider", "", providerUsage())
	cmd.Flags().StringVar(&choice.BaseURL, "base-url", "", "the address of the provider")
	completeFlag(cmd, "provider", model.Providers...)
	return cmd
}
