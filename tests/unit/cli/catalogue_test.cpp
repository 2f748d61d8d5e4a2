#include "cli/catalogue.h"

#include <gtest/gtest.h>

#include "cli/toml.h"

namespace hearth {
namespace {

constexpr const char* kSha = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

TEST(Toml, ReadsTheFormsTheCatalogueUses) {
    const Result<std::vector<TomlTable>> tables = parse_toml(
        "# comment\nname = \"a \\\"b\\\" \\\\ c\" # behind\nraw = 'C:\\x'\nsize = 1_000\nflag = true\r\n"
        "[models.\"x.y\"]\nlist = [ # first\n  \"a\",\n  'b', # second\n]\nempty = []\n[ models . z ]\n",
        "test");
    ASSERT_TRUE(tables.ok()) << tables.error().message;
    ASSERT_EQ(tables->size(), 3u);
    const TomlTable& top = tables.value()[0];
    EXPECT_EQ(std::get<std::string>(*top.find("name")), "a \"b\" \\ c");
    EXPECT_EQ(std::get<std::string>(*top.find("raw")), "C:\\x");
    EXPECT_EQ(std::get<std::int64_t>(*top.find("size")), 1000);
    EXPECT_EQ(std::get<bool>(*top.find("flag")), true);
    EXPECT_EQ(top.find("absent"), nullptr);
    const TomlTable& second = tables.value()[1];
    EXPECT_EQ(second.path, (std::vector<std::string>{"models", "x.y"}));
    EXPECT_EQ(std::get<std::vector<std::string>>(*second.find("list")), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(tables.value()[2].path, (std::vector<std::string>{"models", "z"}));
}

TEST(Toml, FaultsNameTheLine) {
    const auto fault = [](std::string_view text) {
        const Result<std::vector<TomlTable>> tables = parse_toml(text, "f.toml");
        return tables.ok() ? std::string("ok") : tables.error().message;
    };
    EXPECT_EQ(fault("a = 1\nb 2\n"), "f.toml, line 2: '=' is expected after 'b'");
    EXPECT_EQ(fault("a = \"x\n"), "f.toml, line 1: the string does not end");
    EXPECT_EQ(fault("a = \"\\q\""), "f.toml, line 1: unknown escape in a string");
    EXPECT_EQ(fault("a = 1 2\n"), "f.toml, line 1: the end of the line is expected");
    EXPECT_EQ(fault("a = 1\na = 2\n"), "f.toml, line 2: 'a' is there twice");
    EXPECT_EQ(fault("[a]\n[a]\n"), "f.toml, line 2: the table is there twice");
    EXPECT_EQ(fault("[[a]]\n"), "f.toml, line 1: arrays of tables are not supported");
    EXPECT_EQ(fault("[a\n"), "f.toml, line 1: ']' is expected");
    EXPECT_EQ(fault("a = [\"x\" \"y\"]"), "f.toml, line 1: ',' or ']' is expected");
    EXPECT_NE(fault("a = 1.5"), "ok");
    EXPECT_NE(fault("a ="), "ok");
    EXPECT_NE(fault("= 1"), "ok");
    EXPECT_NE(fault("a = [[\"x\"]]"), "ok");
    EXPECT_NE(fault(std::string((1 << 20) + 1, '\n')), "ok");
}

TEST(Toml, EveryCutOfAValidFileIsReadOrRefused) {
    const std::string_view whole = kBuiltInCatalogue;
    for (std::size_t length = 0; length <= whole.size(); ++length) {
        static_cast<void>(parse_toml(whole.substr(0, length), "cut").ok());
    }
    EXPECT_TRUE(parse_toml(whole, "whole").ok());
}

TEST(Catalogue, TheBuiltInOneHasItsDefaultModel) {
    const Result<Catalogue> catalogue = Catalogue::parse(kBuiltInCatalogue, "models.toml");
    ASSERT_TRUE(catalogue.ok()) << catalogue.error().message;
    const CatalogueModel* model = catalogue->find(catalogue->default_model);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->name, "smollm2-135m");
    EXPECT_EQ(model->sha256, kSha);
    EXPECT_EQ(model->size_bytes, 98362432u);
    EXPECT_EQ(catalogue->find("gemma3-270m")->packages.size(), 4u);
    EXPECT_EQ(catalogue->find("nobody"), nullptr);
}

TEST(Catalogue, RefusesWhatItCannotTrust) {
    const auto fault = [](const std::string& body) {
        const Result<Catalogue> catalogue = Catalogue::parse("[models.m]\n" + body, "f.toml");
        return catalogue.ok() ? std::string("ok") : catalogue.error().message;
    };
    const std::string sums = "size = 5\nsha256 = \"" + std::string(kSha) + "\"\n";
    EXPECT_EQ(fault("hub = \"a/b/c.gguf\""), "ok");
    EXPECT_EQ(fault(sums + "packages = [\"p==1\"]\nparts = [\"p/m.gguf\"]"), "ok");
    EXPECT_EQ(fault(""), "f.toml: model 'm': needs either packages or hub");
    EXPECT_EQ(fault(sums + "packages = [\"p==1\"]\nparts = [\"../m.gguf\"]"),
              "f.toml: model 'm': '../m.gguf' is not a path inside a package");
    EXPECT_EQ(fault(sums + "packages = [\"--index=x\"]\nparts = [\"m\"]"), "f.toml: model 'm': a package has no name");
    EXPECT_EQ(fault(sums + "packages = [\"p\"]\nparts = []"),
              "f.toml: model 'm': packages and parts must be of one length");
    EXPECT_EQ(fault("packages = [\"p\"]\nparts = [\"m\"]"), "f.toml: model 'm': needs size and sha256");
    EXPECT_EQ(fault("hub = \"x\"\nsha256 = \"12\""), "f.toml: model 'm': sha256 must be 64 lower-case hex digits");
    EXPECT_EQ(fault("size = -1"), "f.toml: model 'm': size must be a positive number");
    EXPECT_EQ(fault("colour = \"red\""), "f.toml: model 'm': unknown key 'colour'");
    EXPECT_FALSE(Catalogue::parse("[models.\"../x\"]\nhub = \"a\"", "f").ok());
    EXPECT_FALSE(Catalogue::parse("[other]\n", "f").ok());
    EXPECT_FALSE(Catalogue::parse("x = 1\n", "f").ok());
}

TEST(ModelName, IsSafeAsAFileName) {
    EXPECT_TRUE(is_model_name("qwen2.5-0.5b_Q4"));
    for (const char* bad : {"", ".", "..", "../x", "a/b", "-x", ".hidden", "a b", "a\n", "é"}) {
        EXPECT_FALSE(is_model_name(bad)) << bad;
    }
}

}  // namespace
}  // namespace hearth
