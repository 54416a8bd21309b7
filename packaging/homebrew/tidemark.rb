# The formula of a tap: brew install --build-from-source ./tidemark.rb
# Untried: it was written from Homebrew's manual, on another system. url and
# sha256 are those of a release's source; the version follows from the url.
class Tidemark < Formula
  desc "Durable sessions for AI agents"
  homepage "https://github.com/tidemark-sessions/tidemark"
  url "https://github.com/tidemark-sessions/tidemark/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"
  head "https://github.com/tidemark-sessions/tidemark.git", branch: "main"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    system "go", "build", "-buildvcs=false", *std_go_args(ldflags: "-s -w -X main.version=#{version}"), "./cmd/tidemark"
    generate_completions_from_executable(bin/"tidemark", "completion")
    system bin/"tidemark", "man", buildpath/"man1"
    man1.install Dir[buildpath/"man1/*.1"]
  end

  service do
    run [opt_bin/"tidemark", "serve", "--addr", "127.0.0.1:7433"]
    keep_alive successful_exit: false
    environment_variables PATH: std_service_path_env
  end

  test do
    ENV["XDG_DATA_HOME"] = testpath/"data"
    ENV["XDG_CONFIG_HOME"] = testpath/"config"
    assert_match version.to_s, shell_output("#{bin}/tidemark version")
    said = pipe_output("#{bin}/tidemark append new", "{\"role\":\"user\",\"content\":\"high water\"}\n", 0)
    assert_match(/ 1$/, said)
    assert_match "high water", shell_output("#{bin}/tidemark show last")
  end
end
