# shellcheck shell=sh
# ./dev docs: the documentation as a site, and its pictures.

check_site() {
    /usr/bin/python3 -B -m mkdocs --quiet build --clean
}

command_docs() {
    need_for docs
    if [ "${1-}" = --pictures ]; then
        build_preset release "$(release_target)" || exit 1
        /usr/bin/python3 docs/screens/view.py || fail "the pictures were not made"
        /usr/bin/python3 docs/screens/growing.py || fail "the animated picture was not made"
        /usr/bin/python3 docs/screens/attention.py || fail "the picture of attention was not made"
        return
    fi
    check_site || fail "the site was not built"
    cp build/site/llms.txt llms.txt
    echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages, $(du -sh build/site | cut -f 1)"
}
